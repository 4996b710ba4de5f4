// arena.h — the memory of all slots: one anonymous mapping, divided by size class.
//
// Slots are numbered through all classes, those of class 0 first. Every slot starts at a multiple of
// direct_io_alignment. The constructor touches no memory: a slot takes RAM from the first read into it. The mapping
// uses huge pages, because a multiplication reads megabytes, and starts on a huge-page boundary.
//
// The memory of slots at the end of a class's range can be returned to the kernel, in whole huge pages: the kernel may
// keep a huge page of which only a part was returned. So up to two huge pages per class are not returned. The addresses
// stay mapped and take RAM again from the next read.
//
// Threads: immutable after construction, except for leak(). Call give_back() only while no thread uses these slots and
// no read writes to them.
#pragma once

#include "layout/layout.h"
#include "store/slot.h"

#include <cstdint>
#include <span>
#include <vector>

namespace larder {

class Arena {
  public:
    // Throws Error(io) if the mapping is refused.
    Arena(std::span<const SizeClass> size_classes, std::span<const uint64_t> slots);
    ~Arena();
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;

    [[nodiscard]] char *address(SlotIndex slot, uint32_t size_class) const {
        const Class &c = classes_[size_class];
        return c.first_address + static_cast<uint64_t>(slot - c.first_slot) * c.slot_bytes;
    }
    // Keeps the mapping until the process ends, because the kernel may still write into it.
    void leak() { leaked_ = true; }

    // Returns the memory of the class's slots from `first` on to the kernel. The memory of slots from `end` on was
    // returned before, or `end` is the number of slots. The result is in bytes.
    uint64_t give_back(uint32_t size_class, uint64_t first, uint64_t end) const;

    [[nodiscard]] uint64_t slot_bytes(uint32_t size_class) const { return classes_[size_class].slot_bytes; }

    [[nodiscard]] char *base() const { return base_; }
    [[nodiscard]] uint64_t bytes() const { return bytes_; }

  private:
    struct Class {
        char *first_address = nullptr;
        uint64_t slot_bytes = 0;
        uint64_t slots = 0;
        SlotIndex first_slot = 0;
    };

    char *base_ = nullptr;
    uint64_t bytes_ = 0;
    bool leaked_ = false;
    std::vector<Class> classes_;
};

} // namespace larder

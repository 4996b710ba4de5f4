// arena.h — the memory of all slots: one anonymous mapping, carved into size classes.
//
// Slots are numbered through all classes: those of class 0 first. Every slot starts at a multiple of
// direct_io_alignment. Nothing is touched here: a slot costs RAM from the first read into it on. Huge pages are asked
// for (an expert's matmul walks megabytes) and the mapping starts on a huge page's border, so that the kernel can give
// them.
//
// The memory of slots at the end of a class's range can go back to the kernel, in whole huge pages: a part of one would
// leave the rest of it in small pages, and the kernel free to keep the whole. So up to two of them a class stay. The
// addresses stay too, and cost RAM again from the next read into them on.
//
// Threads: immutable after construction. give_back() while nobody uses or reads into those slots.
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
    // Gives back the memory of the class's slots from `first` on; those from `end` on have been given back before, or
    // are none. Returns the bytes of the huge pages that went.
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
    std::vector<Class> classes_;
};

} // namespace larder

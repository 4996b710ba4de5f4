// slot_table.h — which slice is in which slot, and what may be done with the slot.
//
// The life of a slot; `needed` says that the current batch uses its slice:
//
//            acquire               publish            need
//     free ──────────▶ reading ──────────────▶ ready ───────▶ ready, needed (pinned)
//      ▲                 │  need: wanted ▲       │  ◀───────
//      │     abandon     │               │       │   unneed
//      └─────────────────┘               └───────┘ acquire for another slice (evicts)
//
// Invariants (each transition checks its part, check_invariants() all of them):
//   1. A slot is free, reading or ready. Free slots hold no slice; the others hold one, and its entry points back.
//   2. Exactly the slots that are ready and not needed are in the eviction order. So a victim is never pinned, never
//      being read, and never one that the batch still needs.
//   3. Free slots are in the free list of their class, others are not.
//
// Threads: the caller locks. Nothing allocates after construction.
#pragma once

#include "store/eviction.h"
#include "store/slot.h"
#include "store/store.h"

#include <cstdint>
#include <span>
#include <vector>

namespace larder {

enum class SlotState : uint8_t { free, reading, ready };

class SlotTable {
  public:
    SlotTable(uint32_t slices, std::span<const uint64_t> slots_of_class);

    // The slot that holds the slice or is being filled with it, or no_slot.
    [[nodiscard]] SlotIndex find(SliceIndex slice) const { return slot_of_[slice]; }
    [[nodiscard]] bool ready(SliceIndex slice) const;

    [[nodiscard]] SlotState state(SlotIndex slot) const { return slots_[slot].state; }
    [[nodiscard]] bool needed(SlotIndex slot) const { return slots_[slot].needed; }
    [[nodiscard]] SliceIndex slice(SlotIndex slot) const { return slots_[slot].slice; }

    struct Acquired {
        SlotIndex slot = no_slot;
        bool evicted = false; // another slice lost it
    };
    // Takes a slot of the class for a slice that has none: a free one, else the least recently used. It is then
    // reading, and not needed. slot is no_slot if none can be had.
    [[nodiscard]] Acquired acquire(uint32_t size_class, SliceIndex slice);
    void publish(SlotIndex slot); // the read is complete
    void abandon(SlotIndex slot); // the read failed
    void need(SlotIndex slot);    // of a slot that is reading or ready
    void unneed(SlotIndex slot);  // becomes the most recently used
    void touch(SlotIndex slot);   // becomes the most recently used; of a slot that is ready and not needed

    [[nodiscard]] uint32_t slots(uint32_t size_class) const { return classes_[size_class].slots; }
    [[nodiscard]] uint32_t slots() const { return static_cast<uint32_t>(slots_.size()); }
    // How many acquire() would find now.
    [[nodiscard]] uint32_t available(uint32_t size_class) const;
    [[nodiscard]] uint32_t reading() const { return reading_; }
    [[nodiscard]] uint32_t needed() const { return needed_; }

    void check_invariants() const; // walks everything: for tests

  private:
    struct Slot {
        SliceIndex slice = no_slice;
        uint32_t size_class = 0;
        SlotState state = SlotState::free;
        bool needed = false;
    };
    struct Class {
        uint32_t slots = 0;
        std::vector<SlotIndex> free;
    };
    static constexpr SliceIndex no_slice = UINT32_MAX;

    std::vector<Slot> slots_;
    std::vector<SlotIndex> slot_of_; // by slice
    std::vector<Class> classes_;
    LruOrder evictable_;
    uint32_t reading_ = 0;
    uint32_t needed_ = 0;
};

} // namespace larder

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
// Between batches resize() says how many slots of a class there are: it retires those at the end of the class's range,
// or makes retired ones free again.
//
// Invariants (each transition checks its part, check_invariants() all of them):
//   1. A slot is free, reading, ready or retired. Free and retired slots hold no slice; the others hold one, and its
//      entry points back.
//   2. Exactly the slots that are ready and not needed are evictable in the eviction order. So a victim is never
//      pinned, never being read, and never one that the batch still needs.
//   3. Free slots are in the free list of their class, others are not.
//   4. The retired slots of a class are the last of its range, and at least one is not retired.
//
// Which of those goes first is the order's to say, see eviction.h.
//
// Threads: the caller locks. Nothing allocates after construction.
#pragma once

#include "store/eviction.h"
#include "store/slot.h"
#include "store/store.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace larder {

enum class SlotState : uint8_t { free, reading, ready, retired };

class SlotTable {
  public:
    // `expert_of`: by slice. `order` is empty and made for as many slots and classes.
    SlotTable(std::vector<RoutedExpert> expert_of, std::span<const uint64_t> slots_of_class,
              std::unique_ptr<EvictionOrder> order);

    // A step of a layer begins that demands these slices of one tensor, each with so many rows of so many tokens; no
    // rows: one each.
    void begin_step(std::span<const SliceIndex> demanded, std::span<const uint32_t> rows, uint32_t tokens);

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
    // Takes a slot of the class for a slice that has none: a free one, else that of the order's victim. It is
    // then reading, and not needed. slot is no_slot if none can be had.
    [[nodiscard]] Acquired acquire(uint32_t size_class, SliceIndex slice);
    void publish(SlotIndex slot); // the read is complete
    void abandon(SlotIndex slot); // the read failed
    void need(SlotIndex slot);    // of a slot that is reading or ready
    void unneed(SlotIndex slot);
    void keep(SlotIndex slot); // evicted after all others, until the next step; of a slot that is ready and not needed

    // Sets how many slots of the class are in use, at most those of the construction and at least one (none in a class
    // that has none). With fewer than hold slices the order's victims lose theirs. Slices that stay in slots which
    // retire are moved to others: `moved` is told of each, and copies the bytes. While nothing is reading or needed.
    void resize(uint32_t size_class, uint32_t slots, const std::function<void(SlotIndex from, SlotIndex to)> &moved);

    // Those in use; but slots() of all classes counts the retired ones too, as slots are numbered.
    [[nodiscard]] uint32_t slots(uint32_t size_class) const { return classes_[size_class].in_use; }
    [[nodiscard]] uint32_t empty(uint32_t size_class) const { // of those in use, how many hold nothing
        return static_cast<uint32_t>(classes_[size_class].free.size());
    }
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
        SlotIndex first = 0;
        uint32_t slots = 0;
        uint32_t in_use = 0; // the others are retired
        std::vector<SlotIndex> free;
    };
    static constexpr SliceIndex no_slice = UINT32_MAX;

    void evict(SlotIndex slot);
    void collect_free(Class &c);

    std::vector<Slot> slots_;
    std::vector<SlotIndex> slot_of_; // by slice
    std::vector<Class> classes_;
    std::vector<RoutedExpert> expert_of_; // by slice
    std::unique_ptr<EvictionOrder> order_;
    uint32_t reading_ = 0;
    uint32_t needed_ = 0;
};

} // namespace larder

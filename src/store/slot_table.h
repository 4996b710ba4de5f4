// slot_table.h — which slot holds which slice, and the state of each slot.
//
// The states of a slot, and the calls that change them:
//
//             acquire()             publish()             pin()
//      free ────────────▶ reading ────────────▶ ready ────────────▶ ready, pinned
//       ▲                    │                  │   ▲                    │
//       └────────────────────┘                  │   └────────────────────┘
//              abandon()                        │          unpin()
//                                               └──▶ acquire() for another slice evicts it
//
// A slot that is reading can be pinned too: it becomes ready and pinned when its read completes. resize() changes the
// number of slots of a class between batches: it retires slots at the end of the class's range, or frees retired ones.
//
// Invariants (each call checks its part, check_invariants() checks all):
//   1. A slot is free, reading, ready or retired. A free or retired slot holds no slice and is not pinned. Every other
//      slot holds one slice, and no slice is in two slots.
//   2. The evictable slots of the eviction order are exactly the slots that are ready and not pinned. So a slot that is
//      pinned or being read is never evicted.
//   3. The free list of a class holds exactly its free slots.
//   4. The retired slots of a class are the last of its range, and at least one slot is not retired.
//
// The eviction order (eviction.h) decides which slot is evicted.
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
    // `expert_of` is indexed by slice. `order` must be empty and made for the same numbers of slots and classes.
    SlotTable(std::vector<RoutedExpert> expert_of, std::span<const uint64_t> slots_of_class,
              std::unique_ptr<EvictionOrder> order);

    // Begins a step of a MoE layer that demands these slices of one tensor. rows[i] of the `tokens` tokens use
    // demanded[i]. An empty `rows` means one token each.
    void begin_step(std::span<const SliceIndex> demanded, std::span<const uint32_t> rows, uint32_t tokens);

    // The slot that holds the slice, or into which it is being read; otherwise no_slot.
    [[nodiscard]] SlotIndex find(SliceIndex slice) const { return slot_of_[slice]; }
    [[nodiscard]] bool ready(SliceIndex slice) const;

    [[nodiscard]] SlotState state(SlotIndex slot) const { return slots_[slot].state; }
    [[nodiscard]] bool pinned(SlotIndex slot) const { return slots_[slot].pinned; }
    [[nodiscard]] SliceIndex slice(SlotIndex slot) const { return slots_[slot].slice; }

    struct Acquired {
        SlotIndex slot = no_slot;
        bool evicted = false; // another slice was evicted from the slot
    };
    // Takes a slot of the class for a slice that has none: a free slot, or the victim of the eviction order. The slot
    // is then reading and not pinned. Returns no_slot if every slot of the class is pinned or being read.
    [[nodiscard]] Acquired acquire(uint32_t size_class, SliceIndex slice);
    void publish(SlotIndex slot); // the read has completed
    void abandon(SlotIndex slot); // the read has failed: the slot becomes free and not pinned
    void pin(SlotIndex slot);     // requires a slot that is reading or ready
    void unpin(SlotIndex slot);
    void keep(SlotIndex slot); // requires a slot that is ready and not pinned: it is evicted last until the next step

    // Sets the number of slots of the class that are in use: at least one, at most the number at construction (0 in a
    // class that has none). If more slots hold slices, the victims of the eviction order are evicted. A slice in a slot
    // that retires moves to another slot; `moved` must copy its bytes. Requires that no slot is reading or pinned.
    void resize(uint32_t size_class, uint32_t slots, const std::function<void(SlotIndex from, SlotIndex to)> &moved);

    // The number of slots of the class in use. slots() without a class includes retired slots.
    [[nodiscard]] uint32_t slots(uint32_t size_class) const { return classes_[size_class].in_use; }
    [[nodiscard]] uint32_t empty(uint32_t size_class) const { // free slots
        return static_cast<uint32_t>(classes_[size_class].free.size());
    }
    [[nodiscard]] uint32_t slots() const { return static_cast<uint32_t>(slots_.size()); }
    // The number of times that acquire() would succeed now.
    [[nodiscard]] uint32_t available(uint32_t size_class) const;
    [[nodiscard]] uint32_t reading() const { return reading_; }
    [[nodiscard]] uint32_t pinned() const { return pinned_; }
    [[nodiscard]] uint32_t awaited() const { return awaited_; } // slots that are both reading and pinned

    void check_invariants() const; // visits every slot; for tests

  private:
    struct Slot {
        SliceIndex slice = no_slice;
        uint32_t size_class = 0;
        SlotState state = SlotState::free;
        bool pinned = false;
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
    uint32_t pinned_ = 0;
    uint32_t awaited_ = 0;
};

} // namespace larder

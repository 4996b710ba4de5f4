// eviction.h — the order in which slots lose their slice: least recently used first.
//
// A pure data structure over slot numbers: it knows no slices, no memory and no clock, so a recorded trace can be
// replayed on it. One doubly linked list per size class, the links in one array; every call is O(1) and allocates
// nothing.
//
// Invariant: a slot is in at most one list, and only while it may be evicted (ready and needed by nobody).
// Threads: the caller locks.
#pragma once

#include "store/slot.h"

#include <cstdint>
#include <vector>

namespace larder {

class LruOrder {
  public:
    LruOrder(uint32_t slots, uint32_t size_classes);

    void push_recent(uint32_t size_class, SlotIndex slot);
    void remove(uint32_t size_class, SlotIndex slot);
    // The least recently used slot of the class, or no_slot. It stays in the list.
    [[nodiscard]] SlotIndex victim(uint32_t size_class) const;
    [[nodiscard]] bool contains(SlotIndex slot) const { return links_[slot].next != no_slot; }
    [[nodiscard]] uint32_t size(uint32_t size_class) const { return sizes_[size_class]; }

  private:
    struct Link {
        SlotIndex previous = no_slot;
        SlotIndex next = no_slot; // no_slot: in no list
    };

    // Each list is a ring through a sentinel that stands behind all slots in links_: sentinel.next is the oldest,
    // sentinel.previous the most recent.
    [[nodiscard]] SlotIndex sentinel(uint32_t size_class) const { return slots_ + size_class; }

    uint32_t slots_;
    std::vector<Link> links_;
    std::vector<uint32_t> sizes_; // by size class
};

} // namespace larder

// slot_lists.h — doubly linked lists of slots, for eviction orders.
//
// The lists are circular with sentinels; all links are in one array. A slot is in at most one list. Every call is O(1)
// and allocates nothing.
//
// Threads: the caller locks.
#pragma once

#include "base/check.h"
#include "store/slot.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace larder {

class SlotLists {
  public:
    SlotLists(uint32_t slots, size_t lists) : slots_(slots), links_(slots + lists) {
        LARDER_CHECK(links_.size() < no_slot);
        for (size_t list = 0; list < lists; ++list) {
            const SlotIndex ring = sentinel(list);
            links_[ring] = {ring, ring};
        }
    }

    void push_back(size_t list, SlotIndex slot) {
        LARDER_CHECK(slot < slots_ && !contains(slot));
        const SlotIndex ring = sentinel(list);
        const SlotIndex last = links_[ring].previous;
        links_[slot] = {last, ring};
        links_[last].next = slot;
        links_[ring].previous = slot;
    }
    void remove(SlotIndex slot) {
        LARDER_CHECK(slot < slots_ && contains(slot));
        const Link link = links_[slot];
        links_[link.previous].next = link.next;
        links_[link.next].previous = link.previous;
        links_[slot] = {};
    }
    // `to`, which is in no list, replaces `from` at its position.
    void replace(SlotIndex from, SlotIndex to) {
        LARDER_CHECK(from < slots_ && to < slots_ && contains(from) && !contains(to));
        const Link link = links_[from];
        links_[to] = link;
        links_[link.previous].next = to;
        links_[link.next].previous = to;
        links_[from] = {};
    }
    [[nodiscard]] bool contains(SlotIndex slot) const { return links_[slot].next != no_slot; }
    [[nodiscard]] bool empty(size_t list) const { return links_[sentinel(list)].next >= slots_; }
    [[nodiscard]] SlotIndex front(size_t list) const { // no_slot if the list is empty
        const SlotIndex first = links_[sentinel(list)].next;
        return first < slots_ ? first : no_slot;
    }
    [[nodiscard]] SlotIndex next(SlotIndex slot) const { // in the slot's list; no_slot at the end
        const SlotIndex after = links_[slot].next;
        return after < slots_ ? after : no_slot;
    }

  private:
    struct Link {
        SlotIndex previous = no_slot;
        SlotIndex next = no_slot; // no_slot: the slot is in no list
    };
    // Sentinels follow all slots: sentinel.next is the front of its list, sentinel.previous the back.
    [[nodiscard]] SlotIndex sentinel(size_t list) const { return slots_ + static_cast<SlotIndex>(list); }

    uint32_t slots_;
    std::vector<Link> links_;
};

} // namespace larder

#include "store/eviction.h"

#include "base/check.h"

#include <cstddef>

namespace larder {

LruOrder::LruOrder(uint32_t slots, uint32_t size_classes)
    : slots_(slots), links_(static_cast<size_t>(slots) + size_classes), sizes_(size_classes, 0) {
    for (uint32_t size_class = 0; size_class < size_classes; ++size_class) {
        const SlotIndex ring = sentinel(size_class);
        links_[ring] = {ring, ring};
    }
}

void LruOrder::push_recent(uint32_t size_class, SlotIndex slot) {
    LARDER_CHECK(slot < slots_ && !contains(slot));
    const SlotIndex ring = sentinel(size_class);
    const SlotIndex last = links_[ring].previous;
    links_[slot] = {last, ring};
    links_[last].next = slot;
    links_[ring].previous = slot;
    ++sizes_[size_class];
}

void LruOrder::remove(uint32_t size_class, SlotIndex slot) {
    LARDER_CHECK(slot < slots_ && contains(slot) && sizes_[size_class] > 0);
    const Link link = links_[slot];
    links_[link.previous].next = link.next;
    links_[link.next].previous = link.previous;
    links_[slot] = {};
    --sizes_[size_class];
}

SlotIndex LruOrder::victim(uint32_t size_class) const {
    const SlotIndex oldest = links_[sentinel(size_class)].next;
    return oldest < slots_ ? oldest : no_slot;
}

} // namespace larder

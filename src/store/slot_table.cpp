#include "store/slot_table.h"

#include "base/check.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace larder {
namespace {

uint32_t total(std::span<const uint64_t> slots_of_class) {
    const uint64_t sum = std::accumulate(slots_of_class.begin(), slots_of_class.end(), uint64_t{0});
    LARDER_CHECK(sum < no_slot - slots_of_class.size());
    return static_cast<uint32_t>(sum);
}

} // namespace

SlotTable::SlotTable(std::vector<RoutedExpert> expert_of, std::span<const uint64_t> slots_of_class,
                     std::unique_ptr<EvictionOrder> order)
    : slots_(total(slots_of_class)), slot_of_(expert_of.size(), no_slot), classes_(slots_of_class.size()),
      expert_of_(std::move(expert_of)), order_(std::move(order)) {
    SlotIndex first = 0;
    for (uint32_t size_class = 0; size_class < classes_.size(); ++size_class) {
        Class &c = classes_[size_class];
        c.first = first;
        c.slots = static_cast<uint32_t>(slots_of_class[size_class]);
        c.in_use = c.slots;
        for (uint32_t i = 0; i < c.slots; ++i) {
            slots_[first + i].size_class = size_class;
        }
        c.free.reserve(c.slots);
        collect_free(c);
        first += c.slots;
    }
}

bool SlotTable::ready(SliceIndex slice) const {
    const SlotIndex slot = slot_of_[slice];
    return slot != no_slot && slots_[slot].state == SlotState::ready;
}

void SlotTable::begin_step(std::span<const SliceIndex> demanded, std::span<const uint32_t> rows, uint32_t tokens) {
    LARDER_CHECK(rows.empty() || rows.size() == demanded.size());
    if (demanded.empty()) {
        return;
    }
    order_->begin_step(expert_of_[demanded.front()].moe_layer, tokens);
    for (size_t i = 0; i < demanded.size(); ++i) {
        order_->use(expert_of_[demanded[i]], rows.empty() ? 1 : rows[i]);
    }
}

SlotTable::Acquired SlotTable::acquire(uint32_t size_class, SliceIndex slice) {
    LARDER_CHECK(slot_of_[slice] == no_slot);
    Acquired result;
    Class &c = classes_[size_class];
    if (!c.free.empty()) {
        result.slot = c.free.back();
        c.free.pop_back();
    } else {
        result.slot = order_->victim(size_class);
        if (result.slot == no_slot) {
            return result;
        }
        evict(result.slot);
        result.evicted = true;
    }
    Slot &slot = slots_[result.slot];
    LARDER_CHECK(slot.state == SlotState::free && !slot.pinned && slot.size_class == size_class);
    slot.slice = slice;
    slot.state = SlotState::reading;
    slot_of_[slice] = result.slot;
    ++reading_;
    return result;
}

void SlotTable::evict(SlotIndex index) {
    LARDER_CHECK(index < slots_.size());
    Slot &slot = slots_[index];
    order_->remove(slot.size_class, index);
    slot_of_[slot.slice] = no_slot;
    slot.slice = no_slice;
    slot.state = SlotState::free;
}

void SlotTable::publish(SlotIndex index) {
    Slot &slot = slots_[index];
    LARDER_CHECK(slot.state == SlotState::reading && slot_of_[slot.slice] == index);
    slot.state = SlotState::ready;
    --reading_;
    order_->insert(slot.size_class, index, expert_of_[slot.slice]);
    if (slot.pinned) {
        --awaited_;
        order_->pin(slot.size_class, index);
    }
}

void SlotTable::abandon(SlotIndex index) {
    Slot &slot = slots_[index];
    LARDER_CHECK(slot.state == SlotState::reading && slot_of_[slot.slice] == index);
    slot_of_[slot.slice] = no_slot;
    pinned_ -= slot.pinned ? 1 : 0;
    awaited_ -= slot.pinned ? 1 : 0;
    --reading_;
    slot.slice = no_slice;
    slot.state = SlotState::free;
    slot.pinned = false;
    classes_[slot.size_class].free.push_back(index);
}

void SlotTable::pin(SlotIndex index) {
    Slot &slot = slots_[index];
    LARDER_CHECK((slot.state == SlotState::reading || slot.state == SlotState::ready) && !slot.pinned);
    if (slot.state == SlotState::ready) {
        order_->pin(slot.size_class, index);
    } else {
        ++awaited_;
    }
    slot.pinned = true;
    ++pinned_;
}

void SlotTable::unpin(SlotIndex index) {
    Slot &slot = slots_[index];
    LARDER_CHECK(slot.pinned);
    if (slot.state == SlotState::ready) {
        order_->unpin(slot.size_class, index);
    } else {
        --awaited_;
    }
    slot.pinned = false;
    --pinned_;
}

void SlotTable::keep(SlotIndex index) {
    LARDER_CHECK(slots_[index].state == SlotState::ready && !slots_[index].pinned);
    order_->keep(slots_[index].size_class, index);
}

// --- how many slots there are ---

void SlotTable::resize(uint32_t size_class, uint32_t slots,
                       const std::function<void(SlotIndex from, SlotIndex to)> &moved) {
    Class &c = classes_[size_class];
    LARDER_CHECK(reading_ == 0 && pinned_ == 0 && slots <= c.slots && (slots > 0 || c.slots == 0));
    for (size_t holding = c.in_use - c.free.size(); holding > slots; --holding) {
        evict(order_->victim(size_class));
    }
    c.in_use = slots;
    collect_free(c);
    for (SlotIndex from = c.first + slots; from < c.first + c.slots; ++from) {
        if (slots_[from].state == SlotState::ready) {
            const SlotIndex to = c.free.back(); // never empty: at most `slots` slices are left
            c.free.pop_back();
            order_->move(size_class, from, to);
            slots_[to] = slots_[from];
            slot_of_[slots_[to].slice] = to;
            moved(from, to);
            slots_[from].slice = no_slice;
        }
        slots_[from].state = SlotState::retired;
    }
}

// Collects the slots that are in use and hold no slice. They are taken from the back, the lowest number first, so that
// the arena fills from its start.
void SlotTable::collect_free(Class &c) {
    c.free.clear();
    for (SlotIndex index = c.first + c.in_use; index-- > c.first;) {
        if (slots_[index].slice == no_slice) {
            slots_[index].state = SlotState::free;
            c.free.push_back(index);
        }
    }
}

uint32_t SlotTable::available(uint32_t size_class) const {
    return static_cast<uint32_t>(classes_[size_class].free.size()) + order_->size(size_class);
}

void SlotTable::check_invariants() const {
    uint32_t reading = 0;
    uint32_t pinned = 0;
    uint32_t awaited = 0;
    std::vector<uint32_t> free(classes_.size(), 0);
    std::vector<uint32_t> evictable(classes_.size(), 0);
    for (SlotIndex index = 0; index < slots_.size(); ++index) {
        const Slot &slot = slots_[index];
        const bool may_go = slot.state == SlotState::ready && !slot.pinned;
        const Class &own = classes_[slot.size_class];
        LARDER_CHECK((slot.state == SlotState::retired) == (index >= own.first + own.in_use));
        LARDER_CHECK((slot.state == SlotState::free || slot.state == SlotState::retired) == (slot.slice == no_slice));
        LARDER_CHECK(slot.slice == no_slice || slot_of_[slot.slice] == index);
        LARDER_CHECK(!(slot.pinned && slot.slice == no_slice));
        LARDER_CHECK(order_->evictable(index) == may_go);
        reading += slot.state == SlotState::reading ? 1 : 0;
        pinned += slot.pinned ? 1 : 0;
        awaited += slot.pinned && slot.state == SlotState::reading ? 1 : 0;
        free[slot.size_class] += slot.state == SlotState::free ? 1 : 0;
        evictable[slot.size_class] += may_go ? 1 : 0;
    }
    LARDER_CHECK(reading == reading_ && pinned == pinned_ && awaited == awaited_);
    for (uint32_t size_class = 0; size_class < classes_.size(); ++size_class) {
        const std::vector<SlotIndex> &list = classes_[size_class].free;
        LARDER_CHECK(list.size() == free[size_class] && order_->size(size_class) == evictable[size_class]);
        LARDER_CHECK(std::ranges::all_of(list, [&](SlotIndex slot) { return slots_[slot].state == SlotState::free; }));
    }
    for (SliceIndex slice = 0; slice < slot_of_.size(); ++slice) {
        LARDER_CHECK(slot_of_[slice] == no_slot || slots_[slot_of_[slice]].slice == slice);
    }
}

} // namespace larder

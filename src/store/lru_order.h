// lru_order.h — evicts the least recently used slot. One list per size class; every call is O(1).
#pragma once

#include "store/eviction.h"
#include "store/slot_lists.h"

namespace larder {

class LruOrder final : public EvictionOrder {
  public:
    explicit LruOrder(const EvictionShape &shape)
        : lists_(shape.slots, shape.size_classes), sizes_(shape.size_classes, 0) {}

    void begin_step(uint32_t /*layer*/, uint32_t /*tokens*/) override {}
    void use(RoutedExpert /*expert*/, uint32_t /*rows*/) override {}

    void insert(uint32_t size_class, SlotIndex slot, RoutedExpert /*expert*/) override { unpin(size_class, slot); }
    void remove(uint32_t size_class, SlotIndex slot) override { pin(size_class, slot); }
    void pin(uint32_t size_class, SlotIndex slot) override {
        lists_.remove(slot);
        --sizes_[size_class];
    }
    void unpin(uint32_t size_class, SlotIndex slot) override {
        lists_.push_back(size_class, slot);
        ++sizes_[size_class];
    }
    void keep(uint32_t size_class, SlotIndex slot) override {
        lists_.remove(slot);
        lists_.push_back(size_class, slot);
    }

    void move(uint32_t /*size_class*/, SlotIndex from, SlotIndex to) override { lists_.replace(from, to); }

    [[nodiscard]] SlotIndex victim(uint32_t size_class) override { return lists_.front(size_class); }
    [[nodiscard]] bool evictable(SlotIndex slot) const override { return lists_.contains(slot); }
    [[nodiscard]] uint32_t size(uint32_t size_class) const override { return sizes_[size_class]; }

  private:
    SlotLists lists_;
    std::vector<uint32_t> sizes_; // by size class
};

} // namespace larder

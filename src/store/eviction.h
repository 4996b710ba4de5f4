// eviction.h — the order in which slots are evicted, and the policies that define it.
//
// An EvictionOrder handles slots, the experts whose slices they hold, and the experts that each step used. It uses no
// memory contents and no clock, so recorded traces can be replayed through the same code that the store runs. The store
// uses product_policy; docs/replacement.md compares all policies.
//
// Terms: a *step* is the work of one MoE layer in one ubatch. MoE layers are numbered in the order in which a token
// passes them. An expert has one *worth*, which applies to its slices in all size classes.
//
// Invariant: a slot is in the order while it is ready. It is pinned while a batch uses it, and evictable otherwise.
// Cost: O(1), except victim(), which is O(MoE layers + experts of one) in the worst case. Nothing allocates after
// construction. Threads: the caller locks.
#pragma once

#include "store/slot.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace larder {

struct RoutedExpert {
    uint32_t moe_layer = 0;
    uint32_t index = 0; // numbered through all MoE layers, those of MoE layer 0 first
};

struct EvictionShape {
    uint32_t slots = 0;
    uint32_t size_classes = 0;
    std::vector<uint32_t> experts_of_moe_layer;
};

class EvictionOrder {
  public:
    EvictionOrder() = default;
    virtual ~EvictionOrder() = default;
    EvictionOrder(const EvictionOrder &) = delete;
    EvictionOrder &operator=(const EvictionOrder &) = delete;

    // Begins a step of the MoE layer over `tokens` tokens (at least one). Then use() must be called once for each
    // expert that the step uses, with the number of tokens that use it.
    virtual void begin_step(uint32_t moe_layer, uint32_t tokens) = 0;
    virtual void use(RoutedExpert expert, uint32_t rows) = 0;

    // The slot now holds a slice of the expert and is evictable.
    virtual void insert(uint32_t size_class, SlotIndex slot, RoutedExpert expert) = 0;
    // remove(), pin() and keep() require an evictable slot, unpin() a pinned one. A slot that is kept is evicted after
    // all others until the next step begins.
    virtual void remove(uint32_t size_class, SlotIndex slot) = 0;
    virtual void pin(uint32_t size_class, SlotIndex slot) = 0;
    virtual void keep(uint32_t size_class, SlotIndex slot) = 0;
    virtual void unpin(uint32_t size_class, SlotIndex slot) = 0;
    // Moves the slice of the evictable slot `from` to the slot `to`, which is not in the order. Its position in the
    // order does not change.
    virtual void move(uint32_t size_class, SlotIndex from, SlotIndex to) = 0;

    // The evictable slot of the class that is to be evicted first, or no_slot. It stays in the order.
    [[nodiscard]] virtual SlotIndex victim(uint32_t size_class) = 0;
    [[nodiscard]] virtual bool evictable(SlotIndex slot) const = 0;
    [[nodiscard]] virtual uint32_t size(uint32_t size_class) const = 0; // evictable slots
};

inline constexpr std::string_view product_policy = "lfru";

// The policies:
//   - lru: evicts the least recently used slot.
//   - decayed: evicts the slot of the expert that was used least often. Counts are halved every 16 steps of the
//     expert's MoE layer.
//   - lfru: like decayed, but the experts of a MoE layer's last decode step are evicted after all others. Of experts
//     with equal counts, the one whose MoE layer runs again later is evicted first.
std::span<const std::string_view> eviction_policies();
// Throws Error(usage) for an unknown name.
std::unique_ptr<EvictionOrder> make_eviction_order(std::string_view policy, const EvictionShape &shape);

} // namespace larder

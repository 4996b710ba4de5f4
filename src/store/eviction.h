// eviction.h — the order in which slots are evicted, and the policies that define it.
//
// An EvictionOrder knows slots, the experts whose slices they hold, and which experts each step used. It knows no
// memory and no clock, so recorded traces are replayed through the code that the store runs. The store uses
// product_policy; docs/replacement.md compares all policies.
//
// Words: a *step* is the work of one MoE layer in one ubatch. MoE layers are numbered in the order in which a token
// passes them. An expert has one worth, which its slices of all size classes share.
//
// Invariant: a slot is in the order while it is ready. It is pinned while a batch uses it, and evictable otherwise.
// Cost: O(1), except victim(), which is O(MoE layers + experts of one) at worst. Nothing allocates after construction.
// Threads: the caller locks.
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
    uint32_t index = 0; // through all MoE layers, those of MoE layer 0 first
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

    // Begins a step of the MoE layer over `tokens` tokens (at least one). use() follows once for each expert that the
    // step uses, with the number of tokens that use it.
    virtual void begin_step(uint32_t moe_layer, uint32_t tokens) = 0;
    virtual void use(RoutedExpert expert, uint32_t rows) = 0;

    // The slot holds a slice of the expert now, and is evictable.
    virtual void insert(uint32_t size_class, SlotIndex slot, RoutedExpert expert) = 0;
    // remove(), pin() and keep() take an evictable slot, unpin() a pinned one. A slot that is kept is evicted after all
    // others until the next step begins.
    virtual void remove(uint32_t size_class, SlotIndex slot) = 0;
    virtual void pin(uint32_t size_class, SlotIndex slot) = 0;
    virtual void keep(uint32_t size_class, SlotIndex slot) = 0;
    virtual void unpin(uint32_t size_class, SlotIndex slot) = 0;
    // The slice in the evictable slot `from` moves to `to`, which is not in the order, and keeps its place in it.
    virtual void move(uint32_t size_class, SlotIndex from, SlotIndex to) = 0;

    // The evictable slot of the class to evict first, or no_slot. It stays in the order.
    [[nodiscard]] virtual SlotIndex victim(uint32_t size_class) = 0;
    [[nodiscard]] virtual bool evictable(SlotIndex slot) const = 0;
    [[nodiscard]] virtual uint32_t size(uint32_t size_class) const = 0; // evictable ones
};

inline constexpr std::string_view product_policy = "lfru";

// lru       evicts the least recently used slot
// decayed   evicts the expert used least often; counts are halved every 16 steps of the expert's MoE layer
// lfru      as decayed, but experts of a MoE layer's last decode step are evicted after all others, and of equal
// experts
//           the one whose MoE layer runs again later is evicted first
std::span<const std::string_view> eviction_policies();
// Throws Error(usage) for a name that is none of them.
std::unique_ptr<EvictionOrder> make_eviction_order(std::string_view policy, const EvictionShape &shape);

} // namespace larder

// eviction.h — the order in which slots lose their slice, and the policies that make it.
//
// An order knows slots, the experts whose slices are in them, and what each step of each layer asked for. It knows no
// memory and no clock, so that a recorded trace is replayed through the very code that the store runs. The store has
// the policy named product_policy; docs/replacement.md tells why, with the figures of all.
//
// Words: a *step* is the work of one MoE layer in one ubatch. MoE layers are numbered in the order in which a token
// passes them. An expert has one worth, shared by its slices in all size classes.
//
// Invariant: a slot is in the order while it is ready, and pinned while a batch needs it. Only those that are not
// pinned are evictable. Cost: all is O(1) but victim(), which is O(layers + experts of a layer) at worst. Nothing
// allocates after construction. Threads: the caller locks.
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
    uint32_t index = 0; // through all layers, those of layer 0 first
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

    // A step of the MoE layer begins, over `tokens` tokens (at least one); each of its experts is then told once, with
    // how many of the tokens go through it.
    virtual void begin_step(uint32_t moe_layer, uint32_t tokens) = 0;
    virtual void use(RoutedExpert expert, uint32_t rows) = 0;

    // The slot has got a slice of the expert. It is evictable from here on.
    virtual void insert(uint32_t size_class, SlotIndex slot, RoutedExpert expert) = 0;
    // These three are of an evictable slot. A kept one goes after all others, until the next step begins.
    virtual void remove(uint32_t size_class, SlotIndex slot) = 0;
    virtual void pin(uint32_t size_class, SlotIndex slot) = 0;
    virtual void keep(uint32_t size_class, SlotIndex slot) = 0;
    virtual void unpin(uint32_t size_class, SlotIndex slot) = 0;
    // What the evictable slot `from` holds is in `to` now, which was not in the order. Its turn to go stays the same.
    virtual void move(uint32_t size_class, SlotIndex from, SlotIndex to) = 0;

    // The evictable slot of the class that should go first, or no_slot. It stays in the order.
    [[nodiscard]] virtual SlotIndex victim(uint32_t size_class) = 0;
    [[nodiscard]] virtual bool evictable(SlotIndex slot) const = 0;
    [[nodiscard]] virtual uint32_t size(uint32_t size_class) const = 0; // evictable ones
};

inline constexpr std::string_view product_policy = "lfru";

// lru       the least recently used slot first
// decayed   the expert used least often first, counts halved every 16 steps of its layer
// lfru      decayed, but what a layer's last decode step used goes after all else, and of equals the one whose layer's
//           turn is farther away goes first
std::span<const std::string_view> eviction_policies();
// Throws Error(usage) for a name that is none of them.
std::unique_ptr<EvictionOrder> make_eviction_order(std::string_view policy, const EvictionShape &shape);

} // namespace larder

// replay.h — replays a routing trace through the store's slot table and eviction policies, and through the optimal
// policy.
//
// The unit is the expert: one slot holds one expert, as if it had a single slice. A token passes the layers in order.
// The experts that a layer needs in one ubatch are demanded at once; an expert that is cached at that moment is a hit;
// no demanded expert is evicted before it was used. The store treats the slices of one operation in the same way. The
// disk is not simulated.
//
// Threads: pure functions.
#pragma once

#include "lab/trace/trace.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace larder {

struct Ubatch {
    std::vector<TraceToken> tokens; // at least one
    bool counted = true;            // included in hits and misses; other ubatches only change the cache
};

// One ubatch for each decoded token of the trace. With `warm` they follow an uncounted prefill of the other tokens.
// Throws Error(model) if the trace has no decoded token.
std::vector<Ubatch> decode_of(const RoutingTrace &trace, bool warm);

// The decode in two halves with a prefill of `tokens` tokens between them. Only the second half is counted. The prefill
// represents text of another topic: the trace's own tokens with all experts renumbered, so that it is as skewed as the
// trace but prefers other experts. 0 tokens: no prefill.
std::vector<Ubatch> decode_around_prefill(const RoutingTrace &trace, uint32_t tokens);

struct HitCount {
    uint64_t accesses = 0; // distinct experts per layer and ubatch
    uint64_t hits = 0;
    [[nodiscard]] double rate() const {
        return accesses == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(accesses);
    }
};
struct ReplayCount {
    HitCount prefill; // ubatches whose first token is a prefill token
    HitCount decode;
    uint64_t reads = 0; // in all ubatches, including uncounted ones
};

// `trace` determines the numbers of layers and experts. `policy` is one of eviction_policies(). Throws Error(usage) for
// an unknown policy, and for 0 slots.
ReplayCount replay(const RoutingTrace &trace, const std::vector<Ubatch> &ubatches, uint32_t slots,
                   std::string_view policy);

// Belady's MIN: evicts the expert whose next demand is the latest, or that is not demanded again.
ReplayCount replay_min(const RoutingTrace &trace, const std::vector<Ubatch> &ubatches, uint32_t slots);

} // namespace larder

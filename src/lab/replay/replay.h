// replay.h — a recorded routing through the slot table and the eviction policies of the store, and through the best
// that any policy could do.
//
// The unit is the expert: one slot holds one, as if it had a single slice. A token passes layer by layer; what a layer
// demands in one ubatch is demanded at once, a hit is what was resident then, and nothing of it is evicted before it
// was used. That is what the store does with the slices of one op, without the disk.
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
    bool counted = true;            // among the hits and misses; the others only change the cache
};

// Ubatches of one token for each decoded token of the trace: with `warm`, after an uncounted prefill of the others.
// Throws Error(model) if no token was decoded.
std::vector<Ubatch> decode_of(const RoutingTrace &trace, bool warm);

// The decode in two halves with a prefill of `tokens` between them; only the second half is counted. The prefill is
// text of another topic: the trace's own tokens with all experts renumbered, so that it is as skewed as the trace but
// prefers other experts. No tokens: no prefill.
std::vector<Ubatch> decode_around_prefill(const RoutingTrace &trace, uint32_t tokens);

struct HitCount {
    uint64_t accesses = 0; // distinct experts of a layer in an ubatch
    uint64_t hits = 0;
    [[nodiscard]] double rate() const {
        return accesses == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(accesses);
    }
};
struct ReplayCount {
    HitCount prefill; // ubatches whose first token is prefill
    HitCount decode;
    uint64_t reads = 0; // in all ubatches, uncounted ones too
};

// `trace` gives the numbers of layers and experts. `policy` is one of eviction_policies(). Throws Error(usage) for
// another, and for no slots.
ReplayCount replay(const RoutingTrace &trace, const std::vector<Ubatch> &ubatches, uint32_t slots,
                   std::string_view policy);

// Belady's MIN: what is evicted is what will be demanded last, or never.
ReplayCount replay_min(const RoutingTrace &trace, const std::vector<Ubatch> &ubatches, uint32_t slots);

} // namespace larder

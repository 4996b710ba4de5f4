// expected_hits.h — predicts the hit rate of an arena of a given size, without running the model.
#pragma once

#include "lab/trace/trace.h"
#include "layout/layout.h"

#include <cstdint>
#include <optional>
#include <string>

namespace larder {

struct ExpectedHits {
    double rate = 0;
    uint64_t tokens = 0; // replayed, starting with an empty arena
    std::string source;  // where the routing comes from
};

// Reads the routing from a trace file for this model. Throws Error(usage) if its shape differs from the model's, and
// the errors of read_trace().
RoutingTrace trace_for(const ModelLayout &layout, const std::string &path);

// Replays the decoded tokens of `trace` with room for `share` (0 to 1) of its experts. Without a trace, it replays
// synthetic tokens of the model's shape. Empty for a dense model.
std::optional<ExpectedHits> expected_hits(const ModelLayout &layout, double share,
                                          const std::optional<RoutingTrace> &trace);

} // namespace larder

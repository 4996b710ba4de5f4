// expected_hits.h — how often experts will be found in an arena of a given size, before anything was run.
#pragma once

#include "lab/trace/trace.h"
#include "layout/layout.h"

#include <cstdint>
#include <optional>
#include <string>

namespace larder {

struct ExpectedHits {
    double rate = 0;
    uint64_t tokens = 0; // replayed, from an empty cache
    std::string source;  // of the routing
};

// The routing of a trace file for this model. Throws Error(usage) if it is of another shape, and what read_trace()
// throws.
RoutingTrace trace_for(const ModelLayout &layout, const std::string &path);

// Replays the decoded tokens of `trace` with room for `share` (0 to 1) of its experts; without a trace, synthetic
// tokens of the model's shape. None for a dense model.
std::optional<ExpectedHits> expected_hits(const ModelLayout &layout, double share,
                                          const std::optional<RoutingTrace> &trace);

} // namespace larder

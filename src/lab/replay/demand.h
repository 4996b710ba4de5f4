// demand.h — the experts that one layer demands in one ubatch.
#pragma once

#include "lab/trace/trace.h"

#include <cstdint>
#include <vector>

namespace larder {

struct LayerDemand {
    std::vector<uint32_t> experts; // distinct, ascending, numbered through all layers
    std::vector<uint32_t> rows;    // the number of tokens that use each expert
};
LayerDemand demand_of(const RoutingTrace &trace, const std::vector<TraceToken> &tokens, uint32_t layer);

} // namespace larder

#include "lab/replay/demand.h"

#include <algorithm>

namespace larder {

LayerDemand demand_of(const RoutingTrace &trace, const std::vector<TraceToken> &tokens, uint32_t layer) {
    std::vector<uint32_t> all;
    for (const TraceToken &token : tokens) {
        for (uint32_t k = 0; k < trace.top_k; ++k) {
            const int32_t expert = token.experts[size_t{layer} * trace.top_k + k];
            if (expert >= 0) {
                all.push_back(layer * trace.n_expert + static_cast<uint32_t>(expert));
            }
        }
    }
    std::ranges::sort(all);
    LayerDemand demand;
    for (const uint32_t expert : all) {
        if (demand.experts.empty() || demand.experts.back() != expert) {
            demand.experts.push_back(expert);
            demand.rows.push_back(0);
        }
        ++demand.rows.back();
    }
    return demand;
}

} // namespace larder

#include "routing.h"

#include "base/check.h"

#include <algorithm>

namespace larder::make_recite {

Routing fold(const RoutingTrace &trace, const make_model::Shape &shape) {
    LARDER_CHECK(shape.top_k <= shape.experts);
    Routing routing;
    routing.tokens_ = static_cast<uint32_t>(std::min<size_t>(trace.tokens.size(), shape.embd));
    routing.layers_ = shape.layers;
    routing.top_k_ = shape.top_k;
    routing.experts_.reserve(size_t{routing.tokens_} * shape.layers * shape.top_k);
    std::vector<int32_t> chosen;
    for (uint32_t token = 0; token < routing.tokens_; token++) {
        std::vector<int32_t> before; // the previous layer, for experts that were not recorded
        for (uint32_t layer = 0; layer < shape.layers; layer++) {
            const size_t first = size_t{layer % trace.n_layer} * trace.top_k;
            chosen.clear();
            for (uint32_t k = 0; k < shape.top_k; k++) {
                const int64_t recorded = trace.tokens[token].experts[first + k % trace.top_k];
                const int64_t shift = int64_t{k / trace.top_k} * std::max(shape.experts / 2, 1U);
                const int64_t unrecorded = before.empty() ? k : before[k];
                int64_t id = (recorded >= 0 ? recorded + shift : unrecorded) % shape.experts;
                while (std::ranges::find(chosen, id) != chosen.end()) {
                    id = (id + 1) % shape.experts;
                }
                chosen.push_back(static_cast<int32_t>(id));
            }
            routing.experts_.insert(routing.experts_.end(), chosen.begin(), chosen.end());
            before = chosen;
        }
    }
    return routing;
}

} // namespace larder::make_recite

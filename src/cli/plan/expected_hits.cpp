#include "cli/plan/expected_hits.h"

#include "base/error.h"
#include "lab/replay/replay.h"
#include "store/eviction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace larder {

namespace {

constexpr uint32_t n_token = 200;
constexpr uint32_t layers_max = 16; // the layers are alike; more of them take time and add no information

// Number of MoE layers that route among the model's experts. Layers for multi-token prediction count only with `all`.
uint32_t routed_layers(const ModelLayout &layout, bool all) {
    uint32_t n = 0;
    int64_t moe_layer_last = -1;
    for (const ExpertTensor &tensor : layout.expert_tensors) {
        const bool counts = all || tensor.layer < layout.n_layer - layout.n_layer_nextn;
        if (counts && tensor.n_expert == layout.n_expert && tensor.moe_layer > moe_layer_last) {
            n++;
            moe_layer_last = tensor.moe_layer;
        }
    }
    return n;
}

RoutingTrace synthetic_for(const ModelLayout &layout) {
    return synthesise_trace({.n_layer = std::min(routed_layers(layout, false), layers_max),
                             .n_expert = layout.n_expert,
                             .top_k = layout.n_expert_used,
                             .n_token = n_token,
                             .skew = skew_like_real,
                             .reuse = reuse_like_real});
}

} // namespace

RoutingTrace trace_for(const ModelLayout &layout, const std::string &path) {
    RoutingTrace trace = read_trace(path);
    const bool layers = trace.n_layer == routed_layers(layout, false) || trace.n_layer == routed_layers(layout, true);
    if (!layers || trace.n_expert > layout.n_expert || trace.top_k != layout.n_expert_used) {
        throw Error(
            ErrorKind::usage,
            fmt::format(
                "--trace: {} has {} layers of {} experts, {} used, but the model has {} layers of {} experts, {} used",
                path, trace.n_layer, trace.n_expert, trace.top_k, routed_layers(layout, false), layout.n_expert,
                layout.n_expert_used),
            "record one with larder run --trace");
    }
    trace.n_expert = layout.n_expert; // some trace formats lack it
    return trace;
}

std::optional<ExpectedHits> expected_hits(const ModelLayout &layout, double share,
                                          const std::optional<RoutingTrace> &trace) {
    if (layout.expert_tensors.empty()) {
        return std::nullopt;
    }
    const RoutingTrace routing = trace ? *trace : synthetic_for(layout);
    const double experts = double{1} * routing.n_layer * routing.n_expert;
    const auto slots = static_cast<uint32_t>(std::max(1.0, std::floor(share * experts + 1e-6)));
    const std::vector<Ubatch> ubatches = decode_of(routing, false);
    return ExpectedHits{replay(routing, ubatches, slots, product_policy).decode.rate(), ubatches.size(),
                        trace ? routing.name : fmt::format("{}, not this model's own", routing.name)};
}

} // namespace larder

#include "store/routed_experts.h"

#include "base/check.h"

#include <algorithm>

namespace larder {

// All tensors of a MoE layer have the same experts.
RoutedExperts routed_experts(const ModelLayout &layout) {
    RoutedExperts experts;
    for (const ExpertTensor &tensor : layout.expert_tensors) {
        experts.of_moe_layer.resize(std::max<size_t>(experts.of_moe_layer.size(), tensor.moe_layer + size_t{1}), 0);
        uint32_t &count = experts.of_moe_layer[tensor.moe_layer];
        count = std::max(count, tensor.n_expert);
    }
    std::vector<uint32_t> first(experts.of_moe_layer.size(), 0);
    for (size_t layer = 1; layer < first.size(); ++layer) {
        first[layer] = first[layer - 1] + experts.of_moe_layer[layer - 1];
    }
    experts.of_slice.resize(layout.n_slice);
    for (const ExpertTensor &tensor : layout.expert_tensors) {
        LARDER_CHECK(tensor.first_slice + tensor.n_expert <= layout.n_slice);
        for (uint32_t expert = 0; expert < tensor.n_expert; ++expert) {
            experts.of_slice[tensor.first_slice + expert] = {tensor.moe_layer, first[tensor.moe_layer] + expert};
        }
    }
    return experts;
}

} // namespace larder

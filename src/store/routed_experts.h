// routed_experts.h — which expert each slice belongs to, in the numbering of eviction.h.
#pragma once

#include "layout/layout.h"
#include "store/eviction.h"

#include <vector>

namespace larder {

struct RoutedExperts {
    std::vector<RoutedExpert> of_slice;
    std::vector<uint32_t> of_layer; // how many
};
RoutedExperts routed_experts(const ModelLayout &layout);

} // namespace larder

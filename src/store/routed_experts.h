// routed_experts.h — the expert of each slice, numbered as in eviction.h.
#pragma once

#include "layout/layout.h"
#include "store/eviction.h"

#include <vector>

namespace larder {

struct RoutedExperts {
    std::vector<RoutedExpert> of_slice;
    std::vector<uint32_t> of_moe_layer; // number of experts
};
RoutedExperts routed_experts(const ModelLayout &layout);

} // namespace larder

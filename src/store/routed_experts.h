// routed_experts.h — the expert that each slice belongs to, numbered as in eviction.h.
#pragma once

#include "layout/layout.h"
#include "store/eviction.h"

#include <vector>

namespace larder {

struct RoutedExperts {
    std::vector<RoutedExpert> of_slice;
    std::vector<uint32_t> of_moe_layer; // their number
};
RoutedExperts routed_experts(const ModelLayout &layout);

} // namespace larder

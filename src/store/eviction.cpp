#include "store/eviction.h"

#include "base/error.h"
#include "store/frequency_order.h"
#include "store/lru_order.h"

#include <fmt/format.h>

#include <array>

namespace larder {
namespace {

constexpr std::array<std::string_view, 3> policies = {"lru", "decayed", product_policy};

} // namespace

std::span<const std::string_view> eviction_policies() { return policies; }

std::unique_ptr<EvictionOrder> make_eviction_order(std::string_view policy, const EvictionShape &shape) {
    if (policy == "lru") {
        return std::make_unique<LruOrder>(shape);
    }
    if (policy == "decayed") {
        return std::make_unique<FrequencyOrder>(shape, FrequencyWeights{});
    }
    if (policy == product_policy) {
        return std::make_unique<FrequencyOrder>(shape, lfru_weights);
    }
    throw Error(ErrorKind::usage, fmt::format("'{}' does not name a replacement policy", policy),
                fmt::format("use one of {}", fmt::join(policies, ", ")));
}

} // namespace larder

#include "plan/needs.h"

#include "base/bytes.h"

#include <algorithm>

namespace larder {

namespace {

constexpr uint64_t reserve_share = 16;
constexpr uint64_t reserve_max = GiB;
constexpr uint64_t kernels_share = 4; // 1 / this part of the reserve

// The overhead is measured in this process and differs by some pages between runs. The next run must accept the budget
// that a refusal names.
constexpr uint64_t overhead_noise = 2 * MiB;

} // namespace

uint64_t total_of(const FixedBytes &fixed) { return fixed.resident + fixed.kv + fixed.compute + fixed.overhead; }

Need need_of(const ModelLayout &layout, const FixedBytes &fixed, const PlanOptions &options) {
    uint64_t arena = floor_bytes(layout);
    if (options.cache_share) {
        arena = std::max(arena, cache_bytes(layout, *options.cache_share));
    }
    return {total_of(fixed) + arena + overhead_noise, fixed.transient};
}

uint64_t reserve_of(uint64_t budget_bytes, uint64_t transient_bytes, const PlanOptions &options) {
    const uint64_t asked = options.reserve_bytes.value_or(default_reserve(budget_bytes));
    return std::max(asked, asked / kernels_share + transient_bytes);
}

bool holds(uint64_t budget_bytes, const Need &need, const PlanOptions &options) {
    const uint64_t reserve = reserve_of(budget_bytes, need.transient_bytes, options);
    return budget_bytes >= reserve && budget_bytes - reserve >= need.held_bytes;
}

// One more byte of budget adds at most one byte of reserve. So if a budget is sufficient, every larger one is, and the
// search can stop at the first smaller budget that is not.
uint64_t smallest_holding(const Need &need, const PlanOptions &options) {
    // x - x/16 >= held is true for x >= held * 16/15, except for rounding.
    const uint64_t reserve =
        options.reserve_bytes.value_or(std::min(need.held_bytes / (reserve_share - 1), reserve_max));
    uint64_t budget = align_up(need.held_bytes + reserve, MiB);
    while (!holds(budget, need, options)) {
        budget += MiB;
    }
    while (budget >= MiB && holds(budget - MiB, need, options)) {
        budget -= MiB;
    }
    return budget;
}

bool gives(const Machine &machine, uint64_t budget_bytes, const Need &need, const PlanOptions &options) {
    const uint64_t tolerated = reserve_of(budget_bytes, need.transient_bytes, options) / kernels_share;
    return budget_bytes <= machine.usable_bytes + tolerated;
}

uint64_t default_reserve(uint64_t budget_bytes) { return std::min(budget_bytes / reserve_share, reserve_max); }

uint64_t smallest_budget(const ModelLayout &layout, const FixedBytes &fixed, const PlanOptions &options) {
    return smallest_holding(need_of(layout, fixed, options), options);
}

uint64_t budget_of(const PlanOptions &options, const Machine &machine) {
    return options.budget_bytes.value_or(machine.unclaimed_bytes());
}

} // namespace larder

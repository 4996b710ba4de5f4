// Chooses the ubatch.
#include "plan/plan.h"

#include "base/check.h"
#include "base/error.h"

#include <algorithm>
#include <array>

namespace larder {

namespace {

constexpr std::array<uint32_t, 5> ubatches = {512, 256, 128, 64, 32}; // the first is llama.cpp's default

// Doubling the ubatch halves the reads of a prompt, as long as a ubatch does not use all experts. An eighth of the
// arena costs a few percentage points of hit rate (docs/replacement.md).
bool leaves_enough(uint64_t arena_bytes, uint64_t arena_bytes_max) {
    return arena_bytes >= arena_bytes_max - arena_bytes_max / 8;
}

} // namespace

std::vector<uint32_t> ubatch_candidates(uint32_t ctx_tokens) {
    std::vector<uint32_t> candidates = {std::min(ubatches.front(), ctx_tokens)};
    for (const uint32_t tokens : ubatches) {
        if (tokens < candidates.front()) {
            candidates.push_back(tokens);
        }
    }
    return candidates;
}

MemoryPlan choose_ubatch(const std::vector<uint32_t> &candidates, const FixedOfUbatch &fixed_of,
                         const ModelLayout &layout, const Machine &machine, const PlanOptions &options) {
    LARDER_CHECK(!candidates.empty());
    const auto plan_of = [&](uint32_t tokens) {
        MemoryPlan plan = make_plan(layout, fixed_of(tokens), machine, options);
        plan.ubatch_tokens = tokens;
        return plan;
    };
    const auto plan_if_it_fits = [&](uint32_t tokens) -> std::optional<MemoryPlan> {
        try {
            return plan_of(tokens);
        } catch (const Error &error) {
            if (error.kind() != ErrorKind::budget) {
                throw;
            }
            return std::nullopt;
        }
    };
    if (candidates.size() == 1) {
        return plan_of(candidates.front());
    }
    std::optional<MemoryPlan> plan = plan_if_it_fits(candidates.front());
    if (plan && holds_all_experts(layout, *plan)) {
        return *plan;
    }
    MemoryPlan smallest = plan_of(candidates.back()); // the error for the smallest candidate is the one to report
    const bool all_can_stay = holds_all_experts(layout, smallest);
    for (size_t i = 1; i < candidates.size(); i++) {
        if (plan && (all_can_stay ? holds_all_experts(layout, *plan)
                                  : leaves_enough(plan->arena_bytes, smallest.arena_bytes))) {
            return *plan;
        }
        plan = i + 1 < candidates.size() ? plan_if_it_fits(candidates[i]) : smallest;
    }
    return smallest;
}

} // namespace larder

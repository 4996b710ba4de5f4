// report.h — what `larder plan` found, as a table or JSON.
//
// Letters are those of the static budget check that others use: C resident weights, E the arena, K KV cache and
// recurrent state, O compute buffers and overhead; the lower bound L = C + E + K, the footprint F = L + O. A budget
// holds F and the reserve.
#pragma once

#include "base/error.h"
#include "cli/plan/expected_hits.h"
#include "compute/compute.h"
#include "machine/machine.h"
#include "plan/plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace larder {

// What all reports begin with.
struct PlanSubject {
    std::string path;
    std::string architecture;
    uint64_t total_bytes = 0;
    uint64_t routed_bytes = 0;
    uint64_t budget_bytes = 0; // that was asked for
    std::string budget_source;
    Machine machine;
    uint32_t sequences = 1;
    uint64_t ctx_tokens = 0; // that it was trained for; 0: unknown
};

struct PlanReport {
    PlanSubject model;
    std::vector<SizeClass> size_classes;
    uint32_t ctx_tokens = 0;
    uint32_t ctx_asked_tokens = 0; // -c; 0: none
    // If it is refused: of the smallest budget that works, or of what the machine gives where that is enough.
    MemoryPlan memory;
    Kernels kernels = Kernels::plain;
    uint32_t threads = 0;
    std::string
        threads_bound_by; // why they are fewer than the machine's cores; empty if they are not, or were asked for
    double cached_share = 0;
    std::optional<ExpectedHits> hits;
    std::optional<uint64_t> reserve_asked_bytes; // --reserve
    std::optional<Error> refusal;
    std::optional<uint64_t> smallest_budget_bytes; // if it is refused; none where no budget helps
    bool machine_suffices = false; // it is refused as the machine gives less than was asked for, which is enough
    uint64_t ctx_budget_bytes = 0; // in which the largest context was looked for; 0: the context is not the reason
    std::optional<uint32_t> ctx_tokens_max; // that fits into it; none if none does
};

// One context with one share of the experts cached, at its least: the smallest ubatch and plain kernels, unless others
// were asked for.
struct FeasibilityCell {
    uint64_t lower_bound_bytes = 0; // L
    uint64_t footprint_bytes = 0;   // F
    uint64_t needed_bytes = 0;      // the smallest budget; 0: less than one token's experts, no budget helps
    bool feasible = false;
};
struct FeasibilityRow {
    uint32_t ctx_tokens = 0;
    uint32_t ubatch_tokens = 0;
    std::vector<FeasibilityCell> cells; // by share
};
struct Feasibility {
    PlanSubject model;
    Kernels kernels = Kernels::plain;
    bool ubatch_asked = false; // -ub
    std::vector<double> shares;
    std::vector<FeasibilityRow> rows;
};

uint64_t lower_bound(const MemoryPlan &plan); // L
uint64_t footprint(const MemoryPlan &plan);   // F

std::string plan_table(const PlanReport &report);
std::string plan_json(const PlanReport &report);
std::string feasibility_table(const Feasibility &feasibility);
std::string feasibility_json(const Feasibility &feasibility);

} // namespace larder

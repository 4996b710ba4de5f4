// report.h — the result of `larder plan`, as a table or JSON.
//
// The letters are those of the usual static budget check: C resident weights, E arena, K KV cache and recurrent state,
// O compute buffers and overhead. The lower bound is L = C + E + K, the footprint F = L + O. A budget holds F and the
// reserve.
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

// The first part of all reports.
struct PlanSubject {
    std::string path;
    std::string architecture;
    uint64_t total_bytes = 0;
    uint64_t routed_bytes = 0;
    uint64_t budget_bytes = 0; // as requested
    std::string budget_source;
    Machine machine;
    uint32_t sequences = 1;
    uint64_t ctx_tokens = 0; // the model's training context; 0: unknown
};

struct PlanReport {
    PlanSubject model;
    std::vector<SizeClass> size_classes;
    uint32_t ctx_tokens = 0;
    uint32_t ctx_asked_tokens = 0; // -c; 0: none
    // After a refusal: the plan of the smallest budget that works, or of what the machine gives if that is enough.
    MemoryPlan memory;
    Kernels kernels = Kernels::plain;
    uint32_t threads = 0;
    // Why there are fewer threads than cores; empty if there are not, or if the user chose the number.
    std::string threads_bound_by;
    double cached_share = 0;
    std::optional<ExpectedHits> hits;
    std::optional<uint64_t> reserve_asked_bytes; // --reserve
    std::optional<Error> refusal;
    std::optional<uint64_t> smallest_budget_bytes; // after a refusal; empty if no budget suffices
    // Refused because the machine gives less than requested, although what it gives is enough.
    bool machine_suffices = false;
    uint64_t ctx_budget_bytes = 0; // in which the largest context was searched; 0: the context is not the cause
    std::optional<uint32_t> ctx_tokens_max; // the largest context that fits; empty if none does
};

// One context with one share of the experts cached, at minimum memory: the smallest ubatch and plain kernels, unless
// the user chose others.
struct FeasibilityCell {
    uint64_t lower_bound_bytes = 0; // L
    uint64_t footprint_bytes = 0;   // F
    uint64_t needed_bytes = 0;      // the smallest budget; 0: less than one token's experts, so no budget suffices
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

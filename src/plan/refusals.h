// refusals.h — the errors of make_plan() and their remedies (private to plan).
#pragma once

#include "base/error.h"
#include "plan/needs.h"
#include "plan/plan.h"

namespace larder {

// The budget is above the available memory.
Error budget_above_machine(const MemoryPlan &plan, const Need &need, const Machine &machine,
                           const PlanOptions &options);
// The budget is too small for an arena of `arena_bytes`.
Error budget_too_small(const MemoryPlan &plan, uint64_t arena_bytes, const Need &need, const Machine &machine,
                       const PlanOptions &options);
// --arena or --cache is below the floor.
Error arena_below_floor(uint64_t arena_bytes, uint64_t floor_bytes);
Error cache_below_floor(const ModelLayout &layout, double share);

} // namespace larder

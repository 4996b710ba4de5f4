// refusals.h — the errors of a plan that cannot be made, and their remedies in words (private to plan).
#pragma once

#include "base/error.h"
#include "plan/needs.h"
#include "plan/plan.h"

namespace larder {

// The budget is above what the machine gives.
Error budget_above_machine(const MemoryPlan &plan, const Need &need, const Machine &machine,
                           const PlanOptions &options);
// The budget does not hold an arena of `arena_bytes`.
Error budget_too_small(const MemoryPlan &plan, uint64_t arena_bytes, const Need &need, const Machine &machine,
                       const PlanOptions &options);
// --arena and --cache are below the floor.
Error arena_below_floor(uint64_t arena_bytes, uint64_t floor_bytes);
Error cache_below_floor(const ModelLayout &layout, double share);

} // namespace larder

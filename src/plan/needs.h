// needs.h — the bytes that a budget must hold, and whether it does (private to plan).
#pragma once

#include "plan/plan.h"

namespace larder {

uint64_t total_of(const FixedBytes &fixed); // without transient memory, which is part of the reserve

struct Need {
    uint64_t held_bytes = 0;      // outside of the reserve
    uint64_t transient_bytes = 0; // inside the reserve
};

// The need that a refusal names: two MiB more than was measured, with the arena of --cache or the floor.
Need need_of(const ModelLayout &layout, const FixedBytes &fixed, const PlanOptions &options);

// The reserve of the plan options, raised if three quarters of it are less than the transient memory.
uint64_t reserve_of(uint64_t budget_bytes, uint64_t transient_bytes, const PlanOptions &options);

bool holds(uint64_t budget_bytes, const Need &need, const PlanOptions &options);

// The smallest budget that holds `need`, in whole MiB.
uint64_t smallest_holding(const Need &need, const PlanOptions &options);

// Whether the machine provides this budget. The kernel's own memory for this process (page tables and the like, about 1
// MiB at this point) counts as used by others, although a cgroup limit equal to the budget is sufficient. Therefore up
// to a quarter of the reserve may be missing.
bool gives(const Machine &machine, uint64_t budget_bytes, const Need &need, const PlanOptions &options);

} // namespace larder

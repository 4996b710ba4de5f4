// needs.h — what a budget must hold, and which one does (private to plan).
#pragma once

#include "plan/plan.h"

namespace larder {

uint64_t total_of(const FixedBytes &fixed); // without transient memory, which the reserve holds

struct Need {
    uint64_t held_bytes = 0;      // beside the reserve
    uint64_t transient_bytes = 0; // inside it
};

// What a refusal names: two MiB more than this measurement needs, with the arena of --cache or the floor.
Need need_of(const ModelLayout &layout, const FixedBytes &fixed, const PlanOptions &options);

// What the user asked for, raised where three quarters of it do not hold the transient memory.
uint64_t reserve_of(uint64_t budget_bytes, uint64_t transient_bytes, const PlanOptions &options);

bool holds(uint64_t budget_bytes, const Need &need, const PlanOptions &options);

// In whole MiB.
uint64_t smallest_holding(const Need &need, const PlanOptions &options);

// The kernel's memory for this process (page tables and the like, about a MiB by now) counts as used by others, though
// a cgroup limit equal to the budget is right. The reserve is there for it: a quarter of it may be gone.
bool gives(const Machine &machine, uint64_t budget_bytes, const Need &need, const PlanOptions &options);

} // namespace larder

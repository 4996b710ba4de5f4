#include "plan/plan.h"

#include "base/bytes.h"
#include "base/check.h"
#include "plan/needs.h"
#include "plan/refusals.h"
#include "plan/slots.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder {

namespace {

std::string source_of(const Machine &machine) {
    return machine.claimed_bytes == 0 ? machine.source
                                      : fmt::format("{}, less {} that other larder processes have planned",
                                                    machine.source, format_bytes(machine.claimed_bytes));
}

void choose_budget(MemoryPlan &plan, const Need &need, const Machine &machine, const PlanOptions &options) {
    if (!options.budget_bytes && options.cache_share) {
        plan.budget_bytes = smallest_holding(need, options);
        plan.budget_source = "--cache";
    } else {
        plan.budget_bytes = budget_of(options, machine);
        plan.budget_source = options.budget_bytes ? "--ram" : source_of(machine);
    }
    plan.reserve_bytes = reserve_of(plan.budget_bytes, need.transient_bytes, options);
}

// The smallest arena that the options allow.
uint64_t least_arena(const ModelLayout &layout, const PlanOptions &options) {
    const uint64_t floor = floor_bytes(layout);
    const uint64_t least = options.cache_share ? cache_bytes(layout, *options.cache_share) : floor;
    if (least < floor) {
        throw cache_below_floor(layout, *options.cache_share);
    }
    return least;
}

} // namespace

MemoryPlan make_plan(const ModelLayout &layout, const FixedBytes &fixed, const Machine &machine,
                     const PlanOptions &options) {
    MemoryPlan plan;
    plan.fixed = fixed;
    for (const SizeClass &size_class : layout.size_classes) {
        LARDER_CHECK(size_class.slot_bytes > 0);
        plan.slots.push_back(floor_slots(size_class));
    }
    plan.floor_bytes = floor_bytes(layout);
    const uint64_t arena_least = least_arena(layout, options);
    const Need need = need_of(layout, fixed, options);
    choose_budget(plan, need, machine, options);

    if (!options.overcommit && !gives(machine, plan.budget_bytes, need, options)) {
        throw budget_above_machine(plan, need, machine, options);
    }
    if (!holds(plan.budget_bytes, {total_of(fixed) + arena_least, fixed.transient}, options)) {
        throw budget_too_small(plan, arena_least, need, machine, options);
    }
    const uint64_t room = plan.budget_bytes - plan.reserve_bytes - total_of(fixed);
    const uint64_t arena_max = options.cache_share ? arena_least : std::min(room, options.arena_bytes.value_or(room));
    if (arena_max < plan.floor_bytes) {
        throw arena_below_floor(arena_max, plan.floor_bytes);
    }
    share_out(layout.size_classes, arena_max - plan.floor_bytes, plan.slots);

    plan.arena_bytes = bytes_of(layout.size_classes, plan.slots);
    LARDER_CHECK(plan.arena_bytes >= plan.floor_bytes && plan.arena_bytes <= arena_max);
    plan.spare_bytes = room - plan.arena_bytes;
    return plan;
}

} // namespace larder

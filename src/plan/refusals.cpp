#include "plan/refusals.h"

#include "base/bytes.h"
#include "machine/address_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace larder {

namespace {

// How the machine could provide `budget_bytes`: by a higher limit if one can be raised, otherwise by free memory.
Remedy other_machine(const Machine &machine, uint64_t budget_bytes) {
    return {RemedyKind::other_machine,
            machine.ulimit.empty() ? "free some memory" : raise_limit_for(machine, budget_bytes)};
}

// Remedies other than a different budget.
std::vector<Remedy> ways_to_need_less(const FixedBytes &fixed, const PlanOptions &options) {
    std::vector<Remedy> ways;
    if (fixed.kv > 0) {
        ways.push_back({RemedyKind::shorter_context, "lower -c"});
    } else {
        ways.push_back({RemedyKind::smaller_model, "take a smaller model"});
    }
    if (options.cache_share) {
        ways.push_back({RemedyKind::cache_share, "lower --cache"});
    }
    // A lower --reserve has no effect if the transient memory of a long context determines the reserve.
    if (options.reserve_bytes && *options.reserve_bytes > fixed.transient) {
        ways.push_back({RemedyKind::smaller_reserve, "lower --reserve"});
    }
    return ways;
}

std::vector<Remedy> with(std::vector<Remedy> first, const std::vector<Remedy> &others) {
    first.insert(first.end(), others.begin(), others.end());
    return first;
}

std::string list_of(const FixedBytes &fixed) {
    return fmt::format("resident weights {}, KV cache {}, compute buffers {}, overhead {}",
                       format_bytes(fixed.resident), format_bytes(fixed.kv), format_bytes(fixed.compute),
                       format_bytes(fixed.overhead));
}

// "even the smallest budget that works, 57M, is more"
std::string smallest_is_more(uint64_t smallest_bytes) {
    return fmt::format("even the smallest budget that works, {}M, is more", smallest_bytes / MiB);
}

// The smallest share, in tenths of a percent, whose arena is at least the floor.
uint64_t smallest_tenths(const ModelLayout &layout) {
    const uint64_t floor = floor_bytes(layout);
    const uint64_t all = all_experts_bytes(layout);
    uint64_t tenths = (1000 * floor + all - 1) / all;
    while (cache_bytes(layout, static_cast<double>(tenths) / 10 / 100) < floor) { // rounds like parse_percent()
        tenths++;
    }
    return tenths;
}

} // namespace

Error budget_above_machine(const MemoryPlan &plan, const Need &need, const Machine &machine,
                           const PlanOptions &options) {
    const uint64_t smallest = smallest_holding(need, options);
    std::string what = fmt::format("a budget of {} is more than the {} that this process may use ({})",
                                   format_bytes(plan.budget_bytes), format_bytes(machine.usable_bytes), machine.source);
    std::vector<Remedy> remedies;
    const Remedy overcommit = {RemedyKind::other_machine, "accept the risk with --overcommit"};
    if (gives(machine, smallest, need, options)) {
        const uint64_t largest = std::max(smallest, machine.usable_bytes);
        remedies.push_back({RemedyKind::smaller_budget, fmt::format("use --ram {}M or less", largest / MiB), largest});
        remedies.push_back(machine.ulimit.empty() ? overcommit : other_machine(machine, plan.budget_bytes));
    } else {
        what += "; " + smallest_is_more(smallest);
        remedies.push_back(other_machine(machine, plan.budget_bytes));
        if (machine.ulimit.empty()) {
            remedies.push_back(overcommit);
        }
        remedies = with(std::move(remedies), ways_to_need_less(plan.fixed, options));
    }
    return {ErrorKind::budget, std::move(what), std::move(remedies)};
}

Error budget_too_small(const MemoryPlan &plan, uint64_t arena_bytes, const Need &need, const Machine &machine,
                       const PlanOptions &options) {
    const uint64_t smallest = smallest_holding(need, options);
    const std::string experts = options.cache_share
                                    ? fmt::format("{:g} % of the experts (--cache)", 100 * *options.cache_share)
                                    : std::string("one token's experts");
    std::string what = fmt::format("a budget of {} ({}) is too small: {}, reserve {}, and {} {}",
                                   format_bytes(plan.budget_bytes), plan.budget_source, list_of(plan.fixed),
                                   format_bytes(plan.reserve_bytes), experts, format_bytes(arena_bytes));
    Remedy first = {RemedyKind::larger_budget, fmt::format("use --ram {}M or more", smallest / MiB), smallest};
    if (!options.overcommit && !gives(machine, smallest, need, options)) {
        what += fmt::format("; the smallest budget that works, {}M, is more than the {} that this process may use ({})",
                            smallest / MiB, format_bytes(machine.usable_bytes), machine.source);
        first = other_machine(machine, smallest);
    }
    return {ErrorKind::budget, std::move(what), with({first}, ways_to_need_less(plan.fixed, options))};
}

Error arena_below_floor(uint64_t arena_bytes, uint64_t floor_bytes) {
    return {ErrorKind::budget,
            fmt::format("an arena of {} (--arena) is below one token's experts, {}: nothing would ever be hit",
                        format_bytes(arena_bytes), format_bytes(floor_bytes)),
            {{RemedyKind::arena, fmt::format("use --arena {}K or more", align_up(floor_bytes, KiB) / KiB),
              align_up(floor_bytes, KiB)}}};
}

Error cache_below_floor(const ModelLayout &layout, double share) {
    const uint64_t tenths = smallest_tenths(layout);
    return {ErrorKind::budget,
            fmt::format("{:g} % of the experts (--cache), {}, is below one token's experts, {}: nothing would ever be "
                        "hit",
                        100 * share, format_bytes(cache_bytes(layout, share)), format_bytes(floor_bytes(layout))),
            {{RemedyKind::cache_share, fmt::format("use --cache {:g}% or more", static_cast<double>(tenths) / 10),
              tenths}}};
}

} // namespace larder

#include "plan/plan.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "machine/address_limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder {

namespace {

constexpr uint64_t reserve_share = 16;
constexpr uint64_t reserve_max = GiB;
constexpr uint64_t kernels_share = 4; // 1 / this of the reserve

// The overhead is measured on the process itself and differs by some pages from run to run. The budget that a refusal
// names must not be refused in the next run for that.
constexpr uint64_t overhead_noise = 2 * MiB;

uint64_t total_of(const FixedBytes &fixed) { return fixed.resident + fixed.kv + fixed.compute + fixed.overhead; }

// A quarter of what is wished may be gone to the kernel's memory for this process; what passes fits beside it.
uint64_t reserve_of(uint64_t budget, uint64_t passing, const PlanWishes &wishes) {
    const uint64_t wished = wishes.reserve_bytes.value_or(default_reserve(budget));
    return std::max(wished, wished / kernels_share + passing);
}

// What a budget must hold.
struct Need {
    uint64_t held = 0;    // beside the reserve
    uint64_t passing = 0; // inside it
};

bool holds(uint64_t budget, const Need &need, const PlanWishes &wishes) {
    const uint64_t reserve = reserve_of(budget, need.passing, wishes);
    return budget >= reserve && budget - reserve >= need.held;
}

// The smallest in whole MiB. A byte more of budget is at most a byte more of reserve, so what holds the need goes on
// holding it upwards, and one step down tells whether it is the smallest.
uint64_t smallest_holding(const Need &need, const PlanWishes &wishes) {
    // x - x/16 >= held holds from x = held * 16/15 on, give or take the rounding.
    const uint64_t reserve = wishes.reserve_bytes.value_or(std::min(need.held / (reserve_share - 1), reserve_max));
    uint64_t budget = align_up(need.held + reserve, MiB);
    while (!holds(budget, need, wishes)) {
        budget += MiB;
    }
    while (budget >= MiB && holds(budget - MiB, need, wishes)) {
        budget -= MiB;
    }
    return budget;
}

// The arena that --cache asks for.
uint64_t cache_bytes(double share, uint64_t all) {
    return std::min(all, static_cast<uint64_t>(share * static_cast<double>(all)));
}

uint64_t floor_slots(const SizeClass &size_class) {
    return std::min(size_class.n_slices_per_token, size_class.n_slices);
}

uint64_t bytes_of(const std::vector<SizeClass> &classes, const std::vector<uint64_t> &slots) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < classes.size(); i++) {
        bytes += slots[i] * classes[i].slot_bytes;
    }
    return bytes;
}

std::string list_of(const FixedBytes &fixed) {
    return fmt::format("resident weights {}, KV cache {}, compute buffers {}, overhead {}",
                       format_bytes(fixed.resident), format_bytes(fixed.kv), format_bytes(fixed.compute),
                       format_bytes(fixed.overhead));
}

// The kernel's memory for this process (page tables and the like, a megabyte or so by now) counts as used by others,
// though a cgroup limit equal to the budget is right. The reserve is there for it: part of it may be gone.
bool gives(const Machine &machine, uint64_t budget, const Need &need, const PlanWishes &wishes) {
    const uint64_t tolerated = reserve_of(budget, need.passing, wishes) / kernels_share;
    return budget <= machine.usable_bytes + tolerated;
}

// What else to do than to take another budget.
std::string ways_to_need_less(const FixedBytes &fixed, const PlanWishes &wishes) {
    std::string ways = fixed.kv > 0 ? "lower -c" : "take a smaller model";
    if (wishes.cache_share) {
        ways += ", or lower --cache";
    }
    if (wishes.reserve_bytes && *wishes.reserve_bytes > fixed.passing) { // else it is a long context that needs it
        ways += ", or lower --reserve";
    }
    return ways;
}

void check_machine_gives(const MemoryPlan &plan, const Need &need, const Machine &machine, const PlanWishes &wishes) {
    const uint64_t budget = plan.budget_bytes;
    if (wishes.overcommit || gives(machine, budget, need, wishes)) {
        return;
    }
    const uint64_t smallest = smallest_holding(need, wishes);
    const std::string more = machine.ulimit.empty() ? "--overcommit" : raise_limit_for(machine, budget);
    const std::string remedy =
        gives(machine, smallest, need, wishes)
            ? fmt::format("use --ram {}M or less, or {}", std::max(smallest, machine.usable_bytes) / MiB, more)
            : fmt::format("even the smallest that works, --ram {}M, is more: {}, or {}", smallest / MiB,
                          machine.ulimit.empty() ? "make room, or take --overcommit" : more,
                          ways_to_need_less(plan.fixed, wishes));
    throw Error(ErrorKind::budget,
                fmt::format("a budget of {} is more than the {} that this process may use ({})", format_bytes(budget),
                            format_bytes(machine.usable_bytes), machine.source),
                remedy);
}

Error too_small(const MemoryPlan &plan, uint64_t arena_least, const Need &need, const Machine &machine,
                const PlanWishes &wishes) {
    const uint64_t smallest = smallest_holding(need, wishes);
    const std::string less = ways_to_need_less(plan.fixed, wishes);
    std::string remedy = fmt::format("use --ram {}M or more, or {}", smallest / MiB, less);
    if (!wishes.overcommit && !gives(machine, smallest, need, wishes)) {
        remedy = fmt::format("it takes --ram {}M, more than the {} that this process may use ({}): {}, or {}",
                             smallest / MiB, format_bytes(machine.usable_bytes), machine.source,
                             machine.ulimit.empty() ? "make room" : raise_limit_for(machine, smallest), less);
    }
    const std::string experts = wishes.cache_share
                                    ? fmt::format("{:g} % of the experts (--cache)", 100 * *wishes.cache_share)
                                    : std::string("one token's experts");
    return {ErrorKind::budget,
            fmt::format("a budget of {} ({}) is too small: {}, reserve {}, and {} {}", format_bytes(plan.budget_bytes),
                        plan.budget_source, list_of(plan.fixed), format_bytes(plan.reserve_bytes), experts,
                        format_bytes(arena_least)),
            remedy};
}

Error arena_too_small(uint64_t arena, uint64_t floor) {
    return {ErrorKind::budget,
            fmt::format("an arena of {} (--arena) is below one token's experts, {}: nothing would ever be hit",
                        format_bytes(arena), format_bytes(floor)),
            fmt::format("use --arena {}K or more", align_up(floor, KiB) / KiB)};
}

// The smallest share in tenths of a percent that is an arena of so much.
double smallest_percent(uint64_t floor, uint64_t all) {
    uint64_t tenths = (1000 * floor + all - 1) / all;
    while (cache_bytes(static_cast<double>(tenths) / 10 / 100, all) < floor) { // as parse_percent() rounds
        tenths++;
    }
    return static_cast<double>(tenths) / 10;
}

Error cache_too_small(double share, uint64_t cache, uint64_t floor, uint64_t all) {
    return {ErrorKind::budget,
            fmt::format("{:g} % of the experts (--cache), {}, is below one token's experts, {}: nothing would ever be "
                        "hit",
                        100 * share, format_bytes(cache), format_bytes(floor)),
            fmt::format("use --cache {:g}% or more", smallest_percent(floor, all))};
}

// Hands out `bytes` in slots above those in `slots`: to each class that is not full in proportion to the bytes a token
// demands of it, and again what a class could not use because it became full. Returns what is left. So classes whose
// layers use equal shares of their experts are cached to equal shares, which is right: an expert is a hit only with all
// its slices. Slices of layers that use fewer of theirs are each worth less. (docs/replacement.md has the replay.)
uint64_t share_out(const std::vector<SizeClass> &classes, uint64_t bytes, std::vector<uint64_t> &slots) {
    bool again = true;
    while (again) {
        again = false;
        uint64_t weights = 0;
        for (size_t i = 0; i < classes.size(); i++) {
            if (slots[i] < classes[i].n_slices) {
                weights += classes[i].n_slices_per_token * classes[i].slot_bytes;
            }
        }
        if (weights == 0) {
            break; // all are full, or nothing asks for them
        }
        const uint64_t whole = bytes;
        for (size_t i = 0; i < classes.size(); i++) {
            const SizeClass &size_class = classes[i];
            const uint64_t missing = size_class.n_slices - slots[i];
            if (missing == 0) {
                continue;
            }
            // 128 bits: both factors may be terabytes.
            const auto weight = static_cast<unsigned __int128>(size_class.n_slices_per_token) * size_class.slot_bytes;
            const auto share = static_cast<uint64_t>(weight * whole / weights);
            const uint64_t given = std::min(share / size_class.slot_bytes, missing);
            slots[i] += given;
            bytes -= given * size_class.slot_bytes;
            again = again || given == missing;
        }
    }
    return bytes;
}

// The shares leave less than a slot of each class: what these add up to still makes a few slots, the largest first.
void use_remainder(const std::vector<SizeClass> &classes, uint64_t bytes, std::vector<uint64_t> &slots) {
    for (size_t i = classes.size(); i-- > 0;) {
        const uint64_t given = std::min(bytes / classes[i].slot_bytes, classes[i].n_slices - slots[i]);
        slots[i] += given;
        bytes -= given * classes[i].slot_bytes;
    }
}

// What a budget must hold for make_plan() to accept it, a little more than this measurement needs included.
Need need_of(const ModelLayout &layout, const FixedBytes &fixed, const PlanWishes &wishes) {
    uint64_t arena = floor_bytes(layout);
    if (wishes.cache_share) {
        arena = std::max(arena, cache_bytes(*wishes.cache_share, all_experts_bytes(layout)));
    }
    return {total_of(fixed) + arena + overhead_noise, fixed.passing};
}

void choose_budget(MemoryPlan &plan, const Need &need, const Machine &machine, const PlanWishes &wishes) {
    if (wishes.budget_bytes) {
        plan.budget_bytes = *wishes.budget_bytes;
        plan.budget_source = "--ram";
    } else if (wishes.cache_share) {
        plan.budget_bytes = smallest_holding(need, wishes);
        plan.budget_source = "--cache";
    } else {
        plan.budget_bytes = machine.usable_bytes;
        plan.budget_source = machine.source;
    }
    plan.reserve_bytes = reserve_of(plan.budget_bytes, need.passing, wishes);
}

} // namespace

uint64_t default_reserve(uint64_t budget_bytes) { return std::min(budget_bytes / reserve_share, reserve_max); }

uint64_t floor_bytes(const ModelLayout &layout) {
    uint64_t bytes = 0;
    for (const SizeClass &size_class : layout.size_classes) {
        bytes += floor_slots(size_class) * size_class.slot_bytes;
    }
    return bytes;
}

uint64_t all_experts_bytes(const ModelLayout &layout) {
    uint64_t bytes = 0;
    for (const SizeClass &size_class : layout.size_classes) {
        bytes += size_class.n_slices * size_class.slot_bytes;
    }
    return bytes;
}

uint64_t smallest_budget(const ModelLayout &layout, const FixedBytes &fixed, const PlanWishes &wishes) {
    return smallest_holding(need_of(layout, fixed, wishes), wishes);
}

double cached_share(const ModelLayout &layout, const MemoryPlan &plan) {
    double least = 1;
    for (size_t i = 0; i < plan.slots.size(); i++) {
        least =
            std::min(least, static_cast<double>(plan.slots[i]) / static_cast<double>(layout.size_classes[i].n_slices));
    }
    return least;
}

MemoryPlan make_plan(const ModelLayout &layout, const FixedBytes &fixed, const Machine &machine,
                     const PlanWishes &wishes) {
    const std::vector<SizeClass> &classes = layout.size_classes;
    MemoryPlan plan;
    plan.fixed = fixed;
    for (const SizeClass &size_class : classes) {
        LARDER_CHECK(size_class.slot_bytes > 0);
        plan.slots.push_back(floor_slots(size_class));
    }
    plan.floor_bytes = floor_bytes(layout);
    uint64_t arena_least = plan.floor_bytes;
    if (wishes.cache_share) {
        arena_least = cache_bytes(*wishes.cache_share, all_experts_bytes(layout));
        if (arena_least < plan.floor_bytes) {
            throw cache_too_small(*wishes.cache_share, arena_least, plan.floor_bytes, all_experts_bytes(layout));
        }
    }
    const Need need = need_of(layout, fixed, wishes);
    choose_budget(plan, need, machine, wishes);

    check_machine_gives(plan, need, machine, wishes);
    if (!holds(plan.budget_bytes, {total_of(fixed) + arena_least, fixed.passing}, wishes)) {
        throw too_small(plan, arena_least, need, machine, wishes);
    }
    const uint64_t room = plan.budget_bytes - plan.reserve_bytes - total_of(fixed);
    const uint64_t arena_max = wishes.cache_share ? arena_least : std::min(room, wishes.arena_bytes.value_or(room));
    if (arena_max < plan.floor_bytes) {
        throw arena_too_small(arena_max, plan.floor_bytes);
    }
    const uint64_t rest = share_out(classes, arena_max - plan.floor_bytes, plan.slots);
    use_remainder(classes, rest, plan.slots);

    plan.arena_bytes = bytes_of(classes, plan.slots);
    LARDER_CHECK(plan.arena_bytes >= plan.floor_bytes && plan.arena_bytes <= arena_max);
    plan.spare_bytes = room - plan.arena_bytes;
    return plan;
}

} // namespace larder

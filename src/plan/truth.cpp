// Compares the plan with the memory in use.
#include "base/bytes.h"
#include "plan/needs.h"
#include "plan/plan.h"

#include <fmt/format.h>

namespace larder {

uint64_t planned_bytes(const MemoryPlan &plan) { return total_of(plan.fixed) + plan.arena_bytes; }

uint64_t claimed_bytes(const MemoryPlan &plan) { return planned_bytes(plan) + plan.reserve_bytes; }

std::string above_plan(const MemoryPlan &plan, uint64_t peak_rss_bytes) {
    const uint64_t planned = planned_bytes(plan);
    if (peak_rss_bytes <= planned + plan.fixed.transient + planned / 50) {
        return {};
    }
    return fmt::format(
        "the process took {}, {} more than planned: the overhead was {} instead of {}; the reserve of {} "
        "held it",
        format_bytes(peak_rss_bytes), format_bytes(peak_rss_bytes - planned),
        format_bytes(plan.fixed.overhead + peak_rss_bytes - planned), format_bytes(plan.fixed.overhead),
        format_bytes(plan.reserve_bytes));
}

} // namespace larder

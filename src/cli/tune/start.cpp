#include "cli/tune/start.h"

#include "cli/plan/task.h"

namespace larder {

std::optional<StartingPoint> starting_point(const OpenOptions &options) {
    const std::optional<Json> plan = planned_in_worker(options);
    if (!plan) {
        return std::nullopt;
    }
    return StartingPoint{plan->at("ctx_tokens"), plan->at("threads"), plan->at("ubatch_tokens"),
                         plan->at("arena_bytes"), plan->at("floor_bytes")};
}

} // namespace larder

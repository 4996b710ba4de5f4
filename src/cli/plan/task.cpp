#include "cli/plan/task.h"

#include "cli/worker/worker.h"

namespace larder {

// {"open": …} -> {"plan": {…}}
void plan_task(const Json &job) {
    const PlannedRun planned = plan_only(open_options_from(job.at("open")));
    tell("plan", {{"ctx_tokens", planned.ctx_tokens},
                  {"threads", planned.threads},
                  {"ubatch_tokens", planned.memory.ubatch_tokens},
                  {"kernels", to_string(planned.kernels)},
                  {"arena_bytes", planned.memory.arena_bytes},
                  {"floor_bytes", planned.memory.floor_bytes}});
}

std::optional<Json> planned_in_worker(const OpenOptions &options) {
    Worker worker("plan", {{"open", to_json(options)}});
    std::optional<Json> plan;
    while (const std::optional<Json> told = worker.next()) {
        plan = told->at("plan");
    }
    const WorkerEnd end = worker.wait();
    if (end.interrupted) {
        return std::nullopt;
    }
    if (end.error) {
        throw Error(*end.error);
    }
    return plan;
}

} // namespace larder

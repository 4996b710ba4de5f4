#include "cli/tune/job_runner.h"

#include <algorithm>

namespace larder {

std::optional<double> JobRunner::measure(const Tuning &tuning) {
    BenchFlags flags = flags_.bench;
    flags.open.model.context.threads = tuning.threads;
    flags.open.model.context.ubatch_tokens = tuning.ubatch_tokens;
    flags.open.runtime.reader.depth = tuning.io_depth;
    if (tuning.arena_bytes > 0) {
        flags.open.runtime.plan.arena_bytes = tuning.arena_bytes;
    }
    BenchRow row;
    row.budget = flags_.budget;
    row.test = flags_.job;
    BenchRunner runner(flags);
    hold(&runner);
    runner.measure(row, {});
    hold(nullptr);
    if (runner.stopped()) {
        stop();
    }
    last_error_ = row.error;
    if (row.error || row.repetitions.empty()) {
        return std::nullopt;
    }
    double seconds = row.repetitions.front().wall_ms / 1000;
    for (const Repetition &repetition : row.repetitions) {
        seconds = std::min(seconds, repetition.wall_ms / 1000);
    }
    return seconds;
}

void JobRunner::stop() {
    stopped_ = true;
    const std::lock_guard lock(mutex_);
    if (runner_ != nullptr) {
        runner_->stop();
    }
}

void JobRunner::hold(BenchRunner *runner) {
    const std::lock_guard lock(mutex_);
    runner_ = runner;
    if (runner != nullptr && stopped_) {
        runner->stop();
    }
}

} // namespace larder

#include "cli/bench/runner.h"

#include "base/error.h"

namespace larder {

namespace {

BenchJob job_of(const BenchFlags &flags, const BenchRow &row, uint64_t first, uint32_t repetitions) {
    BenchJob job;
    job.open = with_budget(flags.open, row.budget);
    job.residency = row.residency;
    job.pager = flags.page.options();
    job.test = row.test;
    job.input = {flags.prompt, flags.seed, !flags.cold};
    job.text_file = flags.prompt_file;
    job.first = first;
    job.repetitions = repetitions;
    job.warmup = !flags.cold && !flags.no_warmup;
    job.cold = flags.cold;
    return job;
}

} // namespace

void BenchRunner::take(BenchRow &row, const Json &told) {
    if (told.contains("repetition")) {
        row.repetitions.push_back(repetition_from(told.at("repetition")));
    } else if (told.contains("figures")) {
        row.figures = told.at("figures");
    } else if (told.contains("notice")) {
        row.notice = told.at("notice").get<std::string>();
    }
}

bool BenchRunner::run_worker(BenchRow &row, uint64_t first, uint32_t repetitions,
                             const std::function<void(uint32_t)> &done) {
    Worker worker("bench", to_json(job_of(flags_, row, first, repetitions)));
    {
        const std::lock_guard lock(worker_mutex_);
        worker_ = &worker;
    }
    if (stopped_) { // stop() was called before the worker was registered
        worker.terminate();
    }
    while (const std::optional<Json> told = worker.next()) {
        const size_t before = row.repetitions.size();
        take(row, *told);
        if (row.repetitions.size() > before && done) {
            done(static_cast<uint32_t>(row.repetitions.size()));
        }
    }
    {
        const std::lock_guard lock(worker_mutex_);
        worker_ = nullptr;
    }
    const WorkerEnd end = worker.wait();
    row.exit_code = end.exit_code;
    if (end.interrupted) {
        stopped_ = true;
    }
    row.error = end.error;
    return !row.error;
}

void BenchRunner::measure(BenchRow &row, const std::function<void(uint32_t done)> &after_repetition) {
    if (!flags_.cold) {
        run_worker(row, 1, flags_.repetitions, after_repetition);
        return;
    }
    for (uint32_t i = 1; i <= flags_.repetitions && !stopped_; i++) {
        if (!run_worker(row, i, 1, after_repetition)) {
            return;
        }
    }
}

void BenchRunner::stop() {
    stopped_ = true;
    const std::lock_guard lock(worker_mutex_);
    if (worker_ != nullptr) {
        worker_->terminate();
    }
}

} // namespace larder

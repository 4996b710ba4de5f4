// job_runner.h — the job that larder tune measures.
#pragma once

#include "base/error.h"
#include "cli/tune/flags.h"
#include "lab/tune/tune.h"

#include <atomic>
#include <mutex>
#include <optional>

namespace larder {

// Runs the job in separate processes, one at a time.
class JobRunner {
  public:
    explicit JobRunner(const TuneFlags &flags) : flags_(flags) {}

    // Seconds of the fastest repetition. Empty if the job failed or was stopped; last_error() has the cause.
    std::optional<double> measure(const Tuning &tuning);
    // Any thread. Ends the current run and all later ones.
    void stop();
    [[nodiscard]] bool stopped() const { return stopped_; }
    [[nodiscard]] const std::optional<Error> &last_error() const { return last_error_; }

  private:
    void hold(BenchRunner *runner);

    const TuneFlags &flags_;
    std::atomic<bool> stopped_{false};
    std::mutex mutex_;
    BenchRunner *runner_ = nullptr; // guarded by mutex_
    std::optional<Error> last_error_;
};

} // namespace larder

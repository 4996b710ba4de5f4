// job_runner.h — the job that larder tune measures.
#pragma once

#include "base/error.h"
#include "cli/tune/flags.h"
#include "lab/tune/tune.h"

#include <atomic>
#include <mutex>
#include <optional>

namespace larder {

// Runs the job in processes of its own, one at a time.
class JobRunner {
  public:
    explicit JobRunner(const TuneFlags &flags) : flags_(flags) {}

    // Seconds of the fastest repetition. None if the job failed or was stopped; last_error() has the cause.
    std::optional<double> measure(const Tuning &tuning);
    // Ends the run under way and all later ones. Any thread.
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

// runner.h — runs the processes that measure the rows of `larder bench`, one at a time.
#pragma once

#include "cli/bench/row.h"
#include "cli/bench/task.h"
#include "cli/flags/model_flags.h"
#include "cli/flags/residency_flags.h"
#include "cli/worker/worker.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace larder {

struct BenchFlags {
    OpenOptions open;
    std::vector<Budget> budgets;
    std::vector<Residency> residencies = {Residency::arena};
    PageFlags page;
    std::vector<uint32_t> n_prompt = {512};
    std::vector<uint32_t> n_gen = {128};
    std::vector<uint32_t> n_prompt_gen; // pairs of n_prompt and n_gen
    std::vector<uint32_t> depth = {0};
    uint32_t repetitions = 5;
    std::string prompt;
    std::string prompt_file;
    uint64_t seed = 1;
    bool cold = false;
    bool warm = false; // the default, given explicitly
    bool no_warmup = false;
    bool no_probe = false;
    std::string output = "md";
    std::string svg;
    bool progress = false;
};

class BenchRunner {
  public:
    explicit BenchRunner(const BenchFlags &flags) : flags_(flags) {}

    // Measures the row that its budget, residency and test select. Errors are stored in the row. `after_repetition`
    // gets the number of finished repetitions.
    void measure(BenchRow &row, const std::function<void(uint32_t done)> &after_repetition);

    // Any thread. Ends the current process; measure() returns and starts no other one.
    void stop();
    [[nodiscard]] bool stopped() const { return stopped_; }

  private:
    // Runs one process. Returns false if the row has an error.
    bool run_worker(BenchRow &row, uint64_t first, uint32_t repetitions, const std::function<void(uint32_t)> &done);
    static void take(BenchRow &row, const Json &told);

    const BenchFlags &flags_;
    std::atomic<bool> stopped_{false};
    std::mutex worker_mutex_;
    const Worker *worker_ = nullptr; // guarded by worker_mutex_
};

} // namespace larder

// runner.h — starts the processes that measure the rows of `larder bench`, one at a time.
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
    std::vector<uint32_t> n_prompt_gen; // pairs
    std::vector<uint32_t> depth = {0};
    uint32_t repetitions = 5;
    std::string prompt;
    std::string prompt_file;
    uint64_t seed = 1;
    bool cold = false;
    bool warm = false; // the default, said aloud
    bool no_warmup = false;
    bool no_probe = false;
    std::string output = "md";
    std::string svg;
    bool progress = false;
};

class BenchRunner {
  public:
    explicit BenchRunner(const BenchFlags &flags) : flags_(flags) {}

    // Measures the row named by its budget, residency and test; what goes wrong is in the row too. `after_repetition`
    // is told how many are done.
    void measure(BenchRow &row, const std::function<void(uint32_t done)> &after_repetition);

    // Any thread: ends the process under way; measure() returns and starts no other.
    void stop();
    [[nodiscard]] bool stopped() const { return stopped_; }

  private:
    // One process; false if the row has an error.
    bool run_worker(BenchRow &row, uint64_t first, uint32_t repetitions, const std::function<void(uint32_t)> &done);
    static void take(BenchRow &row, const Json &told);

    const BenchFlags &flags_;
    std::atomic<bool> stopped_{false};
    std::mutex worker_mutex_;
    const Worker *worker_ = nullptr; // guarded by worker_mutex_
};

} // namespace larder

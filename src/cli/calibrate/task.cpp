// Measures one reserve of `larder calibrate` in a separate process.
#include "cli/worker/task.h"
#include "cli/bench/run.h"
#include "machine/process_memory.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace larder {

namespace {

constexpr auto sampling_interval = std::chrono::milliseconds(5);
constexpr uint32_t n_gen_max = 16;

// Measures the peak of anonymous memory while it exists. The kernel does not keep this figure.
class AnonymousPeak {
  public:
    AnonymousPeak()
        : thread_([this](const std::stop_token &stop) {
              while (!stop.stop_requested()) {
                  peak_ = std::max(peak_.load(), anonymous_bytes());
                  std::this_thread::sleep_for(sampling_interval);
              }
          }) {}
    [[nodiscard]] uint64_t bytes() const { return std::max(peak_.load(), anonymous_bytes()); }

  private:
    std::atomic<uint64_t> peak_{0};
    std::jthread thread_;
};

// A thread of idle priority touches the part of the arena that the reads did not touch. Waits until it has finished, as
// it would have in a longer run, or until it made no progress for a second.
void wait_for_arena(const MemoryPlan &plan) {
    const uint64_t expected = plan.fixed.resident + plan.fixed.kv + plan.arena_bytes;
    uint64_t before = 0;
    for (int unchanged = 0; unchanged < 20;) {
        const uint64_t now = anonymous_bytes();
        unchanged = now > before ? 0 : unchanged + 1;
        if (now >= expected && unchanged > 0) {
            return;
        }
        before = std::max(before, now);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

} // namespace

// {"open": …} -> {"figures": {…}}. The figures include the peak of anonymous memory. A prompt that fills the plan's
// largest ubatch, and some decoding, touch all the memory that a longer run would touch.
void calibrate_task(const Json &job) {
    const AnonymousPeak peak;
    const std::unique_ptr<OpenModel> model = open_model(open_options_from(job.at("open")));
    BenchTest test;
    test.n_gen = std::min(n_gen_max, model->ctx_tokens() / 4);
    test.n_prompt = std::min(model->ubatch_tokens(), model->ctx_tokens() - test.n_gen);
    BenchRun run(*model, test, {});
    run.repeat(1);
    wait_for_arena(model->plan());
    Json figures = stats_json(*model);
    figures["peak_anonymous_bytes"] = peak.bytes();
    tell("figures", std::move(figures));
}

} // namespace larder

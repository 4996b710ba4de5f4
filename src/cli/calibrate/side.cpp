#include "cli/calibrate/side.h"

#include "cli/bench/run.h"
#include "cli/child/side.h"
#include "cli/flags/engine_flags.h"
#include "machine/process_memory.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

namespace larder {

namespace {

using Json = nlohmann::ordered_json;

constexpr auto sampling_interval = std::chrono::milliseconds(5);
constexpr uint32_t n_gen_max = 16;

struct SideFlags {
    EngineFlags engine;
    std::string ram;
};

// The highest anonymous_bytes() while this lives; the kernel keeps a mark of RSS only.
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

// What the reads did not touch of the arena comes from a thread of idle priority: waits until that is done, as in a
// longer run it would be, or has stood still for a second.
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

// A prompt that fills the largest ubatch of the plan and some decoding touch all that a longer run would.
void measure(const SideFlags &flags) {
    const AnonymousPeak peak;
    const std::unique_ptr<Engine> engine = Engine::open(engine_options(flags.engine, flags.ram));
    BenchTest test;
    test.n_gen = std::min(n_gen_max, engine->ctx_tokens() / 4);
    test.n_prompt = std::min(engine->ubatch_tokens(), engine->ctx_tokens() - test.n_gen);
    BenchRun run(*engine, test, {});
    run.repeat(1);
    wait_for_arena(engine->plan());
    Json figures = Json::parse(stats_json(*engine));
    figures["peak_anonymous_bytes"] = peak.bytes();
    tell("figures", std::move(figures));
}

} // namespace

void add_calibrate_side(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<SideFlags>();
    CLI::App *command = app.add_subcommand("calibrate-side", "one reserve of calibrate")->group("");
    add_engine_flags(*command, flags->engine);
    command->add_option("--ram", flags->ram);
    command->callback([flags, &body] { body = [flags] { return run_side([&flags] { measure(*flags); }); }; });
}

} // namespace larder

// larder tune: finds by short runs which threads, ubatch, arena and read depth do a job fastest on this machine, and
// keeps them for larder run.
#include "lab/tune/tune.h"
#include "base/bytes.h"
#include "base/error.h"
#include "cli/bench/runner.h"
#include "cli/command.h"
#include "cli/console/output_files.h"
#include "cli/console/signals.h"
#include "cli/console/stats_file.h"
#include "cli/console/terminal.h"
#include "cli/flags/numbers.h"
#include "cli/tune/profile.h"
#include "cli/tune/start.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <optional>

namespace larder {

namespace {

constexpr int64_t tokens_max = 1 << 24;

struct TuneFlags {
    BenchFlags bench; // its options are where the search begins
    Budget budget;
    BenchTest job = {128, 32, 0};
    uint32_t gain_percent = 3;
    std::string profile;
    std::string output = "md";
    bool quiet = false;
};

template <typename Value> void add_once(std::vector<Value> &values, Value value) {
    if (std::ranges::find(values, value) == values.end()) {
        values.push_back(value);
    }
}

// What the user has named is not varied.
TuneSpace space_of(const OpenOptions &named, const StartingPoint &start) {
    TuneSpace space;
    const auto processors = usable_processors();
    space.threads = {start.threads};
    for (const uint32_t threads : {processors, processors / 2, start.threads / 2}) {
        if (named.model.context.threads == 0 && threads > 0) {
            add_once(space.threads, threads);
        }
    }
    space.ubatch_tokens = {start.ubatch_tokens};
    for (const uint32_t tokens : {1024U, 512U, 256U, 128U, 64U}) {
        if (named.model.context.ubatch_tokens == 0 && tokens <= start.ctx_tokens) {
            add_once(space.ubatch_tokens, tokens);
        }
    }
    space.arena_bytes = {0};
    for (const uint64_t part : {3U, 2U}) {
        const uint64_t bytes = start.arena_bytes / 4 * part;
        if (!named.runtime.plan.arena_bytes && bytes >= start.floor_bytes && bytes > 0) {
            space.arena_bytes.push_back(bytes);
        }
    }
    const uint32_t named_depth = named.runtime.reader.depth;
    space.io_depth = {named_depth > 0 ? named_depth : default_read_depth};
    for (const uint32_t depth : {16U, 4U}) {
        if (named_depth == 0 && start.arena_bytes > 0) {
            add_once(space.io_depth, depth);
        }
    }
    return space;
}

// Runs the job in processes of their own, one at a time.
class JobRunner {
  public:
    explicit JobRunner(const TuneFlags &flags) : flags_(flags) {}

    std::optional<double> measure(const Tuning &tuning) {
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

    void stop() {
        stopped_ = true;
        const std::lock_guard lock(mutex_);
        if (runner_ != nullptr) {
            runner_->stop();
        }
    }
    [[nodiscard]] bool stopped() const { return stopped_; }
    [[nodiscard]] const std::optional<Error> &last_error() const { return last_error_; }

  private:
    void hold(BenchRunner *runner) {
        const std::lock_guard lock(mutex_);
        runner_ = runner;
        if (runner != nullptr && stopped_) {
            runner->stop();
        }
    }

    const TuneFlags &flags_;
    std::atomic<bool> stopped_{false};
    std::mutex mutex_;
    BenchRunner *runner_ = nullptr; // guarded by mutex_
    std::optional<Error> last_error_;
};

std::string arena_text(const Tuning &tuning) {
    return tuning.arena_bytes == 0 ? "all there is" : format_bytes(tuning.arena_bytes);
}

std::string line_of(const Trial &trial, const BenchTest &job) {
    const std::string rate =
        trial.seconds ? fmt::format("{:.3f} s | {:.2f}", *trial.seconds, job.n_token() / *trial.seconds) : "- | -";
    return fmt::format("| {} | {} | {} | {} | {} |\n", trial.tuning.threads, trial.tuning.ubatch_tokens,
                       arena_text(trial.tuning), trial.tuning.io_depth, rate);
}

nlohmann::ordered_json json_of(const Trial &trial) {
    nlohmann::ordered_json json = {{"threads", trial.tuning.threads},
                                   {"ubatch_tokens", trial.tuning.ubatch_tokens},
                                   {"arena_bytes", trial.tuning.arena_bytes},
                                   {"io_depth", trial.tuning.io_depth},
                                   {"seconds", nullptr}};
    if (trial.seconds) {
        json["seconds"] = *trial.seconds;
    }
    return json;
}

// `path`: of the profile; empty if it could not be written.
void print_result(const TuneFlags &flags, const TuneResult &result, const std::string &path) {
    if (flags.output == "json") {
        nlohmann::ordered_json json = {
            {"job", flags.job.name()},
            {"ram", flags.budget.text},
            {"profile", path.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(path)},
            {"best", json_of(result.best)},
            {"trials", nlohmann::ordered_json::array()}};
        for (const Trial &trial : result.trials) {
            json["trials"].push_back(json_of(trial));
        }
        print_now(json.dump(2) + "\n");
        return;
    }
    std::string table = fmt::format(
        "| threads | ubatch | arena | read depth | {} | tok/s |\n|---|---|---|---|---|---|\n", flags.job.name());
    for (const Trial &trial : result.trials) {
        table += line_of(trial, flags.job);
    }
    print_now(fmt::format("{}\nbest: threads {}, ubatch {}, arena {}, read depth {}: {:.3f} s\nprofile: {}\n", table,
                          result.best.tuning.threads, result.best.tuning.ubatch_tokens, arena_text(result.best.tuning),
                          result.best.tuning.io_depth, result.best.seconds.value_or(0),
                          path.empty() ? "not written" : path));
}

uint32_t context_of(const TuneFlags &flags) {
    const uint32_t given = flags.bench.open.model.context.ctx_tokens;
    const uint32_t needed = flags.job.n_token() + 1;
    if (given > 0 && given < needed) {
        throw Error(ErrorKind::usage, fmt::format("-c: the job needs {} tokens of context", needed),
                    "raise it, or lower -p or -n");
    }
    return given;
}

// Before anything is touched, and not after all trials.
void check_output(const TuneFlags &flags, const std::string &path) {
    std::vector<NamedFile> inputs = model_files("-m", flags.bench.open.model.path);
    inputs.push_back({"-f", flags.bench.prompt_file});
    refuse_overwriting(inputs, {{"--profile", path}});
    check_profile_writable(path);
}

int tune(TuneFlags &flags) {
    Signals signals; // before any other thread
    if (flags.job.n_token() == 0) {
        throw Error(ErrorKind::usage, "the job has no tokens", "give -p or -n");
    }
    context_of(flags);
    ModelLayout layout = open_layout(flags.bench.open.model.path);
    layout.metadata.reset(); // the trials may need what it takes
    const std::optional<StartingPoint> start = starting_point(with_budget(flags.bench.open, flags.budget));
    if (!start) {
        return exit_interrupted;
    }
    flags.bench.open.model.context.ctx_tokens = start->ctx_tokens; // run's default, not the shortest that the job needs
    const TuneSpace space = space_of(flags.bench.open, *start);
    const std::string path = flags.profile.empty() ? profile_path(layout, flags.budget) : flags.profile;

    check_output(flags, path);

    JobRunner runner(flags);
    signals.set_handlers([&runner] { runner.stop(); }, {});
    const MeasureJob measure = [&](const Tuning &tuning) {
        const std::optional<double> seconds = runner.measure(tuning);
        if (!flags.quiet && !runner.stopped()) {
            say("tune: threads {}, ubatch {}, arena {}, read depth {}: {}\n", tuning.threads, tuning.ubatch_tokens,
                arena_text(tuning), tuning.io_depth,
                seconds ? fmt::format("{:.3f} s", *seconds) : runner.last_error()->what());
        }
        return seconds;
    };
    const TuneResult result =
        search_tuning(space, flags.gain_percent / 100.0, measure, [&runner] { return runner.stopped(); });
    signals.clear_handlers();
    if (runner.stopped()) {
        return exit_interrupted; // half a search is not a profile
    }
    if (!result.best.seconds) {
        throw runner.last_error()->within("no trial of the job succeeded");
    }
    std::optional<Error> unwritten;
    try {
        write_profile(path, layout,
                      {result.best.tuning, *result.best.seconds, flags.job.name(), start->ctx_tokens,
                       memory_flags(flags.bench.open), usable_processors(), flags.budget.text});
    } catch (const Error &error) { // what the trials found is not lost
        unwritten = error;
    }
    print_result(flags, result, unwritten ? "" : path);
    if (unwritten) {
        throw Error(*unwritten);
    }
    return 0;
}

} // namespace

void add_tune(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<TuneFlags>();
    flags->bench.repetitions = 1;
    CLI::App *command = app.add_subcommand("tune", "find the fastest threads, ubatch, arena and read depth for a model "
                                                   "on this machine, and store them for larder run");
    add_budget_flag(*command, flags->budget);
    add_model_flags(*command, flags->bench.open);
    const std::string group = "Job";
    add_integer(*command, "-p,--n-prompt", flags->job.n_prompt, 0, tokens_max, "tokens of prefill")
        ->default_str("128")
        ->group(group);
    add_integer(*command, "-n,--n-gen", flags->job.n_gen, 0, tokens_max, "tokens of decode")
        ->default_str("32")
        ->group(group);
    CLI::Option *prompt =
        command->add_option("--prompt", flags->bench.prompt, "input text (default: random tokens)")->group(group);
    command->add_option("-f,--file", flags->bench.prompt_file, "read the input text from a file")
        ->excludes(prompt)
        ->group(group);
    add_integer(*command, "-r,--repetitions", flags->bench.repetitions, 1, 1000,
                "repetitions of the job in each trial; the fastest counts")
        ->default_str("1")
        ->group(group);
    add_integer(*command, "--gain", flags->gain_percent, 0, 100, "percent by which a setting must be faster to be used")
        ->default_str("3");
    command->add_option("--profile", flags->profile,
                        "write the profile to this file (default: the file that larder run reads)");
    add_output_flag(*command, flags->output);
    command->add_flag("-q,--quiet", flags->quiet, "print only the result");
    command->callback([flags, &body] { body = [flags] { return tune(*flags); }; });
}

} // namespace larder

// larder tune: finds the threads, ubatch, arena and read depth with which a job is fastest on this machine, by short
// runs, and stores them for larder run.
#include "lab/tune/tune.h"
#include "base/bytes.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/console/output_files.h"
#include "cli/console/signals.h"
#include "cli/console/stats_file.h"
#include "cli/console/terminal.h"
#include "cli/flags/numbers.h"
#include "cli/tune/flags.h"
#include "cli/tune/job_runner.h"
#include "cli/tune/profile.h"
#include "cli/tune/report.h"
#include "cli/tune/space.h"
#include "cli/tune/start.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

namespace larder {

namespace {

constexpr int64_t tokens_max = 1 << 24;

uint32_t context_of(const TuneFlags &flags) {
    const uint32_t given = flags.bench.open.model.context.ctx_tokens;
    const uint32_t needed = flags.job.n_token() + 1;
    if (given > 0 && given < needed) {
        throw Error(ErrorKind::usage, fmt::format("-c: the job needs {} tokens of context", needed),
                    "raise it, or lower -p or -n");
    }
    return given;
}

// Runs before any file is touched, and before the trials.
void check_output(const TuneFlags &flags, const std::string &path) {
    std::vector<NamedFile> inputs = model_files("-m", flags.bench.open.model.path);
    inputs.push_back({"-f", flags.bench.prompt_file});
    refuse_overwriting(inputs, {{"--profile", path}});
    check_profile_writable(path);
}

int tune(TuneFlags &flags) {
    Signals signals; // must precede all other threads
    if (flags.job.n_token() == 0) {
        throw Error(ErrorKind::usage, "the job has no tokens", "give -p or -n");
    }
    context_of(flags);
    ModelLayout layout = open_layout(flags.bench.open.model.path);
    layout.metadata.reset(); // frees memory that the trials may need
    const std::optional<StartingPoint> start = starting_point(with_budget(flags.bench.open, flags.budget));
    if (!start) {
        return exit_interrupted;
    }
    // The default of `larder run`, not the shortest context for the job.
    flags.bench.open.model.context.ctx_tokens = start->ctx_tokens;
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
        return exit_interrupted; // an incomplete search gives no profile
    }
    if (!result.best.seconds) {
        throw runner.last_error()->within("no trial of the job succeeded");
    }
    std::optional<Error> unwritten;
    try {
        write_profile(path, layout,
                      {result.best.tuning, *result.best.seconds, flags.job.name(), start->ctx_tokens,
                       memory_flags(flags.bench.open), usable_processors(), flags.budget.text});
    } catch (const Error &error) { // the result is printed even if it could not be stored
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

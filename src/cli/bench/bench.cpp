// larder bench: measures prefill and decode rates as llama-bench does, under each of several budgets, and compares them
// with the limits of disk and processor.
#include "base/bytes.h"
#include "base/error.h"
#include "cli/bench/chart.h"
#include "cli/bench/report.h"
#include "cli/bench/runner.h"
#include "cli/bench/slice_rate.h"
#include "cli/command.h"
#include "cli/console/output_files.h"
#include "cli/console/signals.h"
#include "cli/console/terminal.h"
#include "cli/console/write_file.h"
#include "cli/flags/numbers.h"
#include "lab/probe/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>

namespace larder {

namespace {

std::vector<BenchTest> tests_of(const BenchFlags &flags) {
    if (flags.n_prompt_gen.size() % 2 != 0) {
        throw Error(ErrorKind::usage, "-pg: expected pairs of token counts", "give pairs like 512,128");
    }
    std::vector<BenchTest> tests;
    for (const uint32_t depth : flags.depth) {
        for (const uint32_t n : flags.n_prompt) {
            tests.push_back({n, 0, depth});
        }
        for (const uint32_t n : flags.n_gen) {
            tests.push_back({0, n, depth});
        }
        for (size_t i = 0; i < flags.n_prompt_gen.size(); i += 2) {
            tests.push_back({flags.n_prompt_gen[i], flags.n_prompt_gen[i + 1], depth});
        }
    }
    std::erase_if(tests, [](const BenchTest &test) { return test.n_token() == 0; });
    if (tests.empty()) {
        throw Error(ErrorKind::usage, "there is nothing to measure", "give -p, -n or -pg");
    }
    return tests;
}

uint64_t text_bytes(const BenchFlags &flags) {
    std::error_code ignored; // the worker that reads the file reports the error
    const uint64_t bytes =
        flags.prompt_file.empty() ? flags.prompt.size() : std::filesystem::file_size(flags.prompt_file, ignored);
    return ignored ? 0 : bytes;
}

// All rows use the context of the longest test, so that all rows of one budget have the same arena. A text has at most
// one token per byte. The answer to it continues through all repetitions.
uint32_t ctx_tokens_of(const BenchFlags &flags, const std::vector<BenchTest> &tests) {
    uint64_t longest = 0;
    for (const BenchTest &test : tests) {
        const uint64_t n_answer = test.n_prompt == 0 && !flags.cold ? flags.repetitions + 1ULL : 1;
        const bool has_text = text_bytes(flags) > 0;
        longest = std::max(longest, test.depth + uint64_t{test.n_prompt} + test.n_gen * (has_text ? n_answer : 1) +
                                        (has_text ? text_bytes(flags) : 0) + 1);
    }
    const uint64_t given = flags.open.model.context.ctx_tokens;
    if (given > 0 && given < longest && text_bytes(flags) == 0) {
        throw Error(ErrorKind::usage, fmt::format("-c: the tests need {} tokens of context", longest),
                    "raise it or remove it");
    }
    return static_cast<uint32_t>(given > 0 ? given : std::min<uint64_t>(longest, INT32_MAX));
}

std::vector<BenchRow> rows_of(const BenchFlags &flags, const std::vector<BenchTest> &tests) {
    if (flags.page.given() && std::ranges::find(flags.residencies, Residency::page) == flags.residencies.end()) {
        throw Error(ErrorKind::usage, "--hot-tokens, --page-evict: no row has residency 'page'",
                    "add --residency page, or remove them");
    }
    std::vector<BenchRow> rows;
    const auto add = [&](const Budget &budget, Residency residency) {
        for (const BenchTest &test : tests) {
            BenchRow row;
            row.budget = budget;
            row.residency = residency;
            row.test = test;
            rows.push_back(std::move(row));
        }
    };
    for (const Residency residency : flags.residencies) {
        if (residency != Residency::arena) {
            add({}, residency);
            continue;
        }
        for (const Budget &budget : flags.budgets.empty() ? std::vector<Budget>(1) : flags.budgets) {
            add(budget, Residency::arena);
        }
    }
    return rows;
}

// W_s: the rate at which this disk reads this model's slices at the best depth.
double measured_slice_rate(const ModelLayout &layout, const BenchFlags &flags) {
    if (layout.expert_tensors.empty() || flags.no_probe) {
        return 0;
    }
    if (flags.progress) {
        say("bench: measuring the disk\n");
    }
    DiskProbe wanted;
    wanted.paths = layout.files;
    wanted.request_bytes = slice_read_bytes(layout);
    wanted.depths = {4, 8, 16, 32};
    wanted.sequential = false;
    wanted.seconds_per_sample = 0.25;
    wanted.reader = flags.open.runtime.reader;
    return slice_rate(layout, probe_disk(wanted));
}

std::string title_of(const BenchRow &row) {
    const bool budget = row.residency == Residency::arena;
    return fmt::format("{} {}",
                       !budget                   ? to_string(row.residency)
                       : row.budget.text.empty() ? "all memory"
                                                 : row.budget.text,
                       row.test.name());
}

// Returns the rows that were measured, also if the run was stopped early.
std::vector<BenchRow> measure_all(std::vector<BenchRow> rows, BenchRunner &runner, BenchReport &report,
                                  const BenchFlags &flags) {
    std::vector<BenchRow> done;
    std::string notice;
    for (BenchRow &row : rows) {
        const std::string title = fmt::format("bench: {} of {}, {}", done.size() + 1, rows.size(), title_of(row));
        if (flags.progress) {
            say("{}\n", title);
        }
        runner.measure(row, [&](uint32_t n) {
            if (flags.progress) {
                say("{}: repetition {} of {}\n", title, n, flags.repetitions);
            }
        });
        if (runner.stopped()) {
            break;
        }
        if (!row.notice.empty() && row.notice != notice) {
            notice = row.notice;
            say("note: {}\n", notice);
        }
        print_now(report.add(row));
        done.push_back(std::move(row));
    }
    return done;
}

int bench(BenchFlags &flags) {
    Signals signals; // must precede all other threads
    const std::vector<BenchTest> tests = tests_of(flags);
    const ModelLayout layout = open_layout(flags.open.model.path);
    flags.open.model.context.ctx_tokens = ctx_tokens_of(flags, tests);
    const std::vector<BenchRow> rows = rows_of(flags, tests);
    std::vector<NamedFile> inputs = model_files("-m", flags.open.model.path);
    inputs.push_back({"-f", flags.prompt_file});
    refuse_overwriting(inputs, {{"--svg", flags.svg}});
    check_replaceable(flags.svg, "--svg"); // checked now, not after the measurement

    BenchSetting setting = setting_of(layout);
    setting.cold = flags.cold;
    setting.batch_tokens = flags.open.model.context.batch_tokens;
    setting.seed = flags.seed;
    setting.disk_bytes_per_second = measured_slice_rate(layout, flags);

    BenchRunner runner(flags);
    BenchReport report(flags.output, setting);
    signals.set_handlers([&runner] { runner.stop(); }, {});
    print_now(report.begin());
    const std::vector<BenchRow> done = measure_all(rows, runner, report, flags);
    signals.clear_handlers();
    print_now(report.end());
    if (!flags.svg.empty()) {
        write_file(flags.svg, budget_curve(setting, done), "--svg");
    }
    return runner.stopped() ? exit_interrupted : exit_code_of(done);
}

void add_test_flags(CLI::App &command, BenchFlags &flags) {
    const std::string group = "Tests";
    constexpr int64_t tokens_max = 1 << 24;
    add_integers(command, "-p,--n-prompt", flags.n_prompt, 0, tokens_max,
                 "tokens of the prefill test; 0: no prefill test")
        ->default_str("512")
        ->group(group);
    add_integers(command, "-n,--n-gen", flags.n_gen, 0, tokens_max, "tokens of the decode test; 0: no decode test")
        ->default_str("128")
        ->group(group);
    add_integers(command, "--n-prompt-gen", flags.n_prompt_gen, 0, tokens_max,
                 "pairs of prefill tokens and decode tokens, measured together")
        ->group(group);
    add_integers(command, "-d,--n-depth", flags.depth, 0, tokens_max, "tokens in the context before each test")
        ->default_str("0")
        ->group(group);
    add_integer(command, "-r,--repetitions", flags.repetitions, 1, 10'000, "repetitions of each test")
        ->default_str("5")
        ->group(group);
    CLI::Option *cold =
        command.add_flag("--cold", flags.cold, "empty the arena and the page cache before each repetition")
            ->group(group);
    command.add_flag("--warm", flags.warm, "run one repetition that is not counted before the others (default)")
        ->excludes(cold)
        ->group(group);
    command.add_flag("--no-warmup", flags.no_warmup, "like --warm, but count the first repetition too")->group(group);
    detail::add_list_option(command, "--residency",
                            "arena, page (experts in a file mapping), stock (llama.cpp's own loader), or a list to "
                            "compare; without -ub, page and stock use a ubatch of 512",
                            "TEXT,…",
                            [&flags](const std::vector<std::string> &names) {
                                flags.residencies.clear();
                                std::ranges::transform(names, std::back_inserter(flags.residencies), residency_of);
                            })
        ->check(CLI::IsMember(residency_names()))
        ->default_str("arena")
        ->group(group);
    CLI::Option *prompt =
        command.add_option("--prompt", flags.prompt, "input text (default: random tokens)")->group(group);
    command.add_option("-f,--file", flags.prompt_file, "read the input text from a file")
        ->excludes(prompt)
        ->group(group);
    add_integer(command, "--seed", flags.seed, 0, INT64_MAX, "seed of the random tokens")
        ->default_str("1")
        ->group(group);
}

} // namespace

void add_bench(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<BenchFlags>();
    CLI::App *command = app.add_subcommand(
        "bench", "measure the speed of prefill and decode under one or more budgets, like llama-bench");
    add_budgets_flag(*command, flags->budgets,
                     "budgets, like 4G,8G or 50% of what the machine or cgroup can give (default: all of it); each "
                     "runs in its own process");
    add_model_flags(*command, flags->open);
    add_batch_flag(*command, flags->open);
    add_test_flags(*command, *flags);
    add_page_flags(*command, flags->page);
    command->add_flag("--no-probe", flags->no_probe,
                      "do not measure the disk; there is no T_io, and a limit only in rows that read no experts");
    command->add_option("-o,--output", flags->output, "md, csv, json or jsonl")
        ->check(CLI::IsMember({"md", "csv", "json", "jsonl"}))
        ->capture_default_str();
    command->add_option("--svg", flags->svg, "write a chart of decode rate and hit rate by budget to this file");
    command->add_flag("--progress", flags->progress, "report on standard error what is being measured");
    command->callback([flags, &body] { body = [flags] { return bench(*flags); }; });
}

} // namespace larder

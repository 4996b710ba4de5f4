// larder verify: runs stock llama.cpp and larder on the same prompt, in separate processes, and compares their logits
// bit for bit.
#include "base/bytes.h"
#include "base/unique_fd.h"
#include "cli/command.h"
#include "cli/console/output_files.h"
#include "cli/console/terminal.h"
#include "cli/console/text_file.h"
#include "cli/console/write_file.h"
#include "cli/flags/model_flags.h"
#include "cli/flags/numbers.h"
#include "cli/plan/task.h"
#include "cli/verify/report.h"
#include "cli/verify/task.h"
#include "runtime/spec_json.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <list>
#include <memory>
#include <optional>

namespace larder {

namespace {

constexpr const char *prompt_default =
    "A larder is a cool room where food is kept until it is wanted. What is used every day stands in front, within "
    "reach; what is used once a year stands at the back, and somebody has to go and fetch it. The trick of a good "
    "larder is to know which is which, to have the common things at hand before they are asked for, and never to "
    "carry back more than the table will hold. Explain how this is like the memory of a computer, step by step.";

struct VerifyFlags {
    OpenOptions open;
    std::vector<Budget> budgets;
    std::string prompt = prompt_default;
    std::string prompt_file;
    std::string against;
    uint32_t n_predict = 32;
    std::string out = "ab-test.json";
};

// Index of the first row that differs; empty if the runs are equal.
std::optional<size_t> first_difference(const std::vector<LogitsRow> &a, const std::vector<LogitsRow> &b) {
    const size_t n = std::min(a.size(), b.size());
    for (size_t i = 0; i < n; i++) {
        if (a[i].digest != b[i].digest || a[i].token != b[i].token || a[i].position != b[i].position) {
            return i;
        }
    }
    return a.size() == b.size() ? std::nullopt : std::optional(n);
}

// Holds all logits of a stock run, for runs that are compared by error. The file has no name, so the kernel removes it
// however this process ends. The workers open it through this process's descriptor.
class TemporaryFile {
  public:
    TemporaryFile() {
        std::string name = (std::filesystem::temp_directory_path() / "larder-verify-XXXXXX").string();
        fd_ = UniqueFd(::mkstemp(name.data()));
        if (!fd_.valid()) {
            throw Error::from_errno(errno, fmt::format("cannot make the file {}", name),
                                    "set TMPDIR to another folder");
        }
        ::unlink(name.c_str());
    }
    [[nodiscard]] std::string path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_.get()); }

  private:
    UniqueFd fd_;
};

double mean_error(const VerifyRun &run) {
    double sum = 0;
    for (const LogitsRow &row : run.rows) {
        sum += static_cast<double>(row.error);
    }
    return sum / static_cast<double>(std::max<size_t>(1, run.rows.size()));
}

Errors errors_of(const VerifyRun &run, const VerifyRun &stock, double stocks_mean) {
    Errors errors{mean_error(run), 0, 0, stocks_mean};
    for (size_t i = 0; i < std::min(run.rows.size(), stock.rows.size()); i++) {
        errors.largest = std::max(errors.largest, static_cast<double>(run.rows[i].error));
        errors.same_top += run.rows[i].top == stock.rows[i].top ? 1 : 0;
    }
    return errors;
}

VerifyJob job_of(const VerifyFlags &flags, const Budget &budget, const std::string &kernels) {
    VerifyJob job;
    job.open = with_budget(flags.open, budget);
    job.open.model.kernels = kernels_named(kernels);
    job.prompt = flags.prompt;
    job.n_predict = flags.n_predict;
    return job;
}

// `job` holds the fields that differ between runs.
VerifyRun run_stock(const VerifyFlags &flags, const std::string &kernels, VerifyJob job) {
    if (!flags.against.empty()) {
        job.open.model.path = flags.against;
    }
    job.stock = true;
    VerifyRun run = run_verify_worker(stock_name, job);
    print_line("stock", run.figures, kernels + " kernels");
    return run;
}

// The kernels of each budget, which its worker must use: with another ubatch the plan might choose others. All workers
// must use the same ubatch, because the ubatch changes the last bits. If the user names none, sets `flags` to the
// smallest ubatch of all budgets. Budgets that are too small are refused here, before the long run of stock llama.cpp.
std::vector<std::string> plan_all(VerifyFlags &flags, const std::vector<Budget> &budgets) {
    std::vector<std::string> kernels;
    uint32_t smallest_ubatch = UINT32_MAX;
    for (const Budget &budget : budgets) {
        OpenOptions options = with_budget(flags.open, budget);
        options.model.context.logits_for_all = true;
        const std::optional<Json> plan = planned_in_worker(options);
        if (!plan) {
            throw Error(ErrorKind::engine, "the process that made the plan was stopped");
        }
        kernels.push_back(plan->at("kernels"));
        smallest_ubatch = std::min(smallest_ubatch, plan->at("ubatch_tokens").get<uint32_t>());
    }
    flags.open.model.context.ubatch_tokens = smallest_ubatch;
    return kernels;
}

std::string name_of(const Budget &budget) { return budget.text.empty() ? "larder" : "larder " + budget.text; }

// Compares bits: each budget with stock llama.cpp on the same kernels.
std::vector<Row> compare_bits(const VerifyFlags &flags, const std::vector<Budget> &budgets,
                              const std::vector<std::string> &kernels, std::list<Stock> &stocks) {
    std::vector<Row> rows;
    for (size_t i = 0; i < budgets.size(); i++) {
        auto stock = std::ranges::find(stocks, kernels[i], &Stock::kernels);
        if (stock == stocks.end()) {
            stocks.push_back({kernels[i], run_stock(flags, kernels[i], job_of(flags, {}, kernels[i]))});
            stock = std::prev(stocks.end());
        }
        Row row{
            name_of(budgets[i]), run_verify_worker("larder", job_of(flags, budgets[i], kernels[i])), &*stock, {}, {}};
        row.difference = first_difference(stock->run.rows, row.run.rows);
        row.passed = !row.difference;
        print_line(row.ram, row.run.figures,
                   row.difference ? fmt::format("NO, from position {}", *row.difference)
                                  : fmt::format("yes, {} positions", stock->run.rows.size()));
        rows.push_back(std::move(row));
    }
    return rows;
}

// Compares errors against stock's repacked kernels. All runs follow the tokens that stock chose there.
std::vector<Row> compare_errors(const VerifyFlags &flags, const std::vector<Budget> &budgets,
                                std::list<Stock> &stocks) {
    const TemporaryFile logits;
    VerifyJob writes = job_of(flags, {}, "repacked");
    writes.write_logits = logits.path();
    stocks.push_back({"repacked", run_stock(flags, "repacked", writes)});
    VerifyJob compares = job_of(flags, {}, "plain");
    compares.reference = logits.path();
    stocks.push_back({"plain", run_stock(flags, "plain", compares)});
    const Stock &repacked = stocks.front();
    const double stocks_mean = mean_error(stocks.back().run);
    std::vector<Row> rows;
    for (const Budget &budget : budgets) {
        VerifyJob job = job_of(flags, budget, "fast");
        job.reference = logits.path();
        Row row{name_of(budget), run_verify_worker("larder", job), &repacked, {}, {}};
        row.errors = errors_of(row.run, repacked.run, stocks_mean);
        row.passed = row.run.rows.size() == repacked.run.rows.size() &&
                     row.errors->mean <= error_bound * row.errors->stocks_mean;
        print_line(row.ram, row.run.figures,
                   fmt::format("{}: mean error {:.1e} (between stock's two paths: {:.1e}), largest {:.1e}; first token "
                               "the same in {} of {} positions",
                               row.passed ? "close" : "TOO FAR", row.errors->mean, stocks_mean, row.errors->largest,
                               row.errors->same_top, repacked.run.rows.size()));
        rows.push_back(std::move(row));
    }
    return rows;
}

// A model with damaged weights can give equal logits that are all NaN.
void warn_of_nan(const VerifyRun &stock) {
    const auto n = std::ranges::count_if(stock.rows, [](const LogitsRow &row) { return row.n_nan > 0; });
    if (n > 0) {
        const auto first = std::ranges::find_if(stock.rows, [](const LogitsRow &row) { return row.n_nan > 0; });
        say("warning: stock llama.cpp's logits hold NaN in {} of {} positions, from position {} on: weights of the "
            "model "
            "may be damaged\n",
            n, stock.rows.size(), first->position);
    }
}

void throw_if_different(const Row &row) {
    if (row.difference) {
        throw Error(ErrorKind::differs,
                    fmt::format("{}: logits differ from stock llama.cpp from position {} on", row.ram, *row.difference),
                    "this is a bug; please report it with the model's name and the flags");
    }
    if (!row.passed) {
        throw Error(ErrorKind::differs,
                    fmt::format("{}: logits are farther from stock llama.cpp than rounding explains", row.ram),
                    "use --kernels auto, which computes the same bits");
    }
}

// Runs before any file is touched, and before the long runs.
void check_output(const VerifyFlags &flags) {
    std::vector<NamedFile> inputs = model_files("-m", flags.open.model.path);
    if (!flags.against.empty()) {
        const std::vector<NamedFile> stocks = model_files("--against", flags.against);
        inputs.insert(inputs.end(), stocks.begin(), stocks.end());
    }
    inputs.push_back({"-f", flags.prompt_file});
    refuse_overwriting(inputs, {{"--out", flags.out}});
    check_replaceable(flags.out, "--out");
}

int verify(VerifyFlags &flags) {
    check_output(flags);
    if (!flags.prompt_file.empty()) {
        flags.prompt = read_text_file(flags.prompt_file, "-f", MiB);
    }
    const std::vector<Budget> budgets = flags.budgets.empty() ? std::vector<Budget>(1) : flags.budgets;
    const std::vector<std::string> kernels = plan_all(flags, budgets);
    print_head();

    std::list<Stock> stocks; // a list, because rows point to its elements
    const std::vector<Row> rows = flags.open.model.kernels == Kernels::fast
                                      ? compare_errors(flags, budgets, stocks)
                                      : compare_bits(flags, budgets, kernels, stocks);
    if (!flags.out.empty()) {
        const std::string &path = flags.open.model.path;
        write_file(flags.out, evidence(path, flags.against.empty() ? path : flags.against, stocks, rows).dump(2) + "\n",
                   "--out");
        fmt::print("results written to {}\n", flags.out);
    }
    warn_of_nan(stocks.front().run);
    std::ranges::for_each(rows, throw_if_different);
    return 0;
}

} // namespace

void add_verify(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<VerifyFlags>();
    CLI::App *command =
        app.add_subcommand("verify", "compare larder's logits with those of unmodified (stock) llama.cpp, bit for bit");
    add_model_flags(*command, flags->open);
    add_budgets_flag(
        *command, flags->budgets,
        "budgets of larder's process, like 4G,8G or 50% of what the machine or cgroup can give (default: all of it)");
    command->add_option("-p,--prompt", flags->prompt, "the prompt (default: a paragraph of English)");
    command->add_option("-f,--file", flags->prompt_file, "read the prompt from a file");
    command->add_option(
        "--against", flags->against,
        "another file for stock llama.cpp, such as the unsplit GGUF of a split model (default: the same file)");
    add_integer(*command, "-n,--predict", flags->n_predict, 0, INT32_MAX, "tokens to decode greedily after the prompt")
        ->default_str("32");
    command->add_option("--out", flags->out, "write the results as JSON to this file; empty: write no file")
        ->capture_default_str();
    command->callback([flags, &body] { body = [flags] { return verify(*flags); }; });
}

} // namespace larder

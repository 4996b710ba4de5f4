// larder verify: stock llama.cpp and larder on the same prompt, each in a process of its own, logits compared bit for
// bit.
#include "base/bytes.h"
#include "base/unique_fd.h"
#include "cli/command.h"
#include "cli/console/output_files.h"
#include "cli/console/stats_file.h"
#include "cli/console/text_file.h"
#include "cli/flags/engine_flags.h"
#include "cli/verify/report.h"
#include "cli/verify/side.h"

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
    EngineFlags engine;
    std::vector<std::string> ram;
    std::string prompt = prompt_default;
    std::string prompt_file;
    std::string against;
    uint32_t n_predict = 32;
    std::string out = "ab-test.json";
};

// The first row at which two sides differ, if they do.
std::optional<size_t> first_difference(const std::vector<LogitsRow> &a, const std::vector<LogitsRow> &b) {
    const size_t n = std::min(a.size(), b.size());
    for (size_t i = 0; i < n; i++) {
        if (a[i].digest != b[i].digest || a[i].token != b[i].token || a[i].position != b[i].position) {
            return i;
        }
    }
    return a.size() == b.size() ? std::nullopt : std::optional(n);
}

// All logits of stock's, for the sides that have no twin to compare with them. Gone at the end.
class TemporaryFile {
  public:
    TemporaryFile() : path_((std::filesystem::temp_directory_path() / "larder-verify-XXXXXX").string()) {
        const UniqueFd fd(::mkstemp(path_.data()));
        if (!fd.valid()) {
            throw Error::from_errno(errno, path_);
        }
    }
    ~TemporaryFile() { ::unlink(path_.c_str()); }
    TemporaryFile(const TemporaryFile &) = delete;
    TemporaryFile &operator=(const TemporaryFile &) = delete;
    [[nodiscard]] const std::string &path() const { return path_; }

  private:
    std::string path_;
};

double mean_error(const VerifySide &side) {
    double sum = 0;
    for (const LogitsRow &row : side.rows) {
        sum += static_cast<double>(row.error);
    }
    return sum / static_cast<double>(std::max<size_t>(1, side.rows.size()));
}

Errors errors_of(const VerifySide &side, const VerifySide &stock, double stocks_mean) {
    Errors errors{mean_error(side), 0, 0, stocks_mean};
    for (size_t i = 0; i < std::min(side.rows.size(), stock.rows.size()); i++) {
        errors.largest = std::max(errors.largest, static_cast<double>(side.rows[i].error));
        errors.same_top += side.rows[i].top == stock.rows[i].top ? 1 : 0;
    }
    return errors;
}

std::vector<std::string> arguments_of(const VerifyFlags &flags, const EngineFlags &engine) {
    std::vector<std::string> arguments = as_arguments(engine);
    arguments.insert(arguments.begin(), "verify-side");
    arguments.insert(arguments.end(), {"-p", flags.prompt, "-n", std::to_string(flags.n_predict)});
    return arguments;
}

std::vector<std::string> larders_arguments(const VerifyFlags &flags, const std::string &ram,
                                           const std::string &kernels) {
    EngineFlags engine = flags.engine;
    engine.kernels = kernels;
    std::vector<std::string> arguments = arguments_of(flags, engine);
    if (!ram.empty()) {
        arguments.insert(arguments.end(), {"--ram", ram});
    }
    return arguments;
}

// `logits` is empty, or --write-logits or --reference with a file.
VerifySide run_stock(const VerifyFlags &flags, const std::string &kernels, const std::vector<std::string> &logits) {
    EngineFlags engine = flags.engine;
    engine.kernels = kernels;
    if (!flags.against.empty()) {
        engine.options.model_path = flags.against;
    }
    std::vector<std::string> arguments = arguments_of(flags, engine);
    arguments.emplace_back("--stock");
    arguments.insert(arguments.end(), logits.begin(), logits.end());
    VerifySide side = run_verify_side(stock_name, arguments);
    print_line("stock", side.figures, kernels + " kernels");
    return side;
}

// What larder's process will do under one budget.
struct Planned {
    std::string kernels;
    uint32_t ubatch_tokens = 0;
};

// A budget that will be refused is refused here, before stock llama.cpp has run for an hour.
Planned planned_with(const VerifyFlags &flags, const std::string &ram) {
    std::vector<std::string> arguments = larders_arguments(flags, ram, flags.engine.kernels);
    arguments.emplace_back("--plan");
    const VerifySide side = run_verify_side("larder", arguments);
    return {side.figures.at("kernels"), side.figures.at("ubatch_tokens")};
}

// The path of kernels of each budget, to be named to its side: with another ubatch the plan might choose another. All
// sides must have the same ubatch, since another one gives other last bits: where the user names none, `flags` get the
// smallest that any of the budgets would have.
std::vector<std::string> plan_all(VerifyFlags &flags, const std::vector<std::string> &budgets) {
    std::vector<Planned> planned;
    for (const std::string &ram : budgets) {
        engine_options(flags.engine, ram); // a typo is said at once
        planned.push_back(planned_with(flags, ram));
    }
    flags.engine.options.ubatch_tokens = std::ranges::min(planned, {}, &Planned::ubatch_tokens).ubatch_tokens;
    std::vector<std::string> kernels;
    for (const Planned &each : planned) {
        kernels.push_back(each.kernels);
    }
    return kernels;
}

std::string name_of(const std::string &ram) { return ram.empty() ? "larder" : "larder " + ram; }

// To the last bit, each budget with stock on its path.
std::vector<Row> compare_bits(const VerifyFlags &flags, const std::vector<std::string> &budgets,
                              const std::vector<std::string> &kernels, std::list<Stock> &stocks) {
    std::vector<Row> rows;
    for (size_t i = 0; i < budgets.size(); i++) {
        auto stock = std::ranges::find(stocks, kernels[i], &Stock::kernels);
        if (stock == stocks.end()) {
            stocks.push_back({kernels[i], run_stock(flags, kernels[i], {})});
            stock = std::prev(stocks.end());
        }
        Row row{name_of(budgets[i]),
                run_verify_side("larder", larders_arguments(flags, budgets[i], kernels[i])),
                &*stock,
                {},
                {}};
        row.difference = first_difference(stock->side.rows, row.side.rows);
        row.passed = !row.difference;
        print_line(row.ram, row.side.figures,
                   row.difference ? fmt::format("NO, from position {}", *row.difference)
                                  : fmt::format("yes, {} positions", stock->side.rows.size()));
        rows.push_back(std::move(row));
    }
    return rows;
}

// By how far logits are from stock's repacked path, all on the tokens that stock chose there.
std::vector<Row> compare_errors(const VerifyFlags &flags, const std::vector<std::string> &budgets,
                                std::list<Stock> &stocks) {
    const TemporaryFile logits;
    stocks.push_back({"repacked", run_stock(flags, "repacked", {"--write-logits", logits.path()})});
    stocks.push_back({"plain", run_stock(flags, "plain", {"--reference", logits.path()})});
    const Stock &repacked = stocks.front();
    const double stocks_mean = mean_error(stocks.back().side);
    std::vector<Row> rows;
    for (const std::string &ram : budgets) {
        std::vector<std::string> arguments = larders_arguments(flags, ram, "fast");
        arguments.insert(arguments.end(), {"--reference", logits.path()});
        Row row{name_of(ram), run_verify_side("larder", arguments), &repacked, {}, {}};
        row.errors = errors_of(row.side, repacked.side, stocks_mean);
        row.passed = row.side.rows.size() == repacked.side.rows.size() &&
                     row.errors->mean <= error_bound * row.errors->stocks_mean;
        print_line(
            row.ram, row.side.figures,
            fmt::format("{}: off by {:.1e} on average (stock's two paths by {:.1e}), {:.1e} at most; first token "
                        "the same in {} of {} positions",
                        row.passed ? "close" : "TOO FAR", row.errors->mean, stocks_mean, row.errors->largest,
                        row.errors->same_top, repacked.side.rows.size()));
        rows.push_back(std::move(row));
    }
    return rows;
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
                    "use --kernels auto, which is equal to the last bit");
    }
}

// Before anything is touched, and not after an hour.
void check_output(const VerifyFlags &flags) {
    std::vector<NamedFile> inputs = model_files("-m", flags.engine.options.model_path);
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
    const std::vector<std::string> budgets = flags.ram.empty() ? std::vector<std::string>{""} : flags.ram;
    const std::vector<std::string> kernels = plan_all(flags, budgets);
    print_head();

    std::list<Stock> stocks; // rows point into it
    const std::vector<Row> rows = flags.engine.kernels == "fast" ? compare_errors(flags, budgets, stocks)
                                                                 : compare_bits(flags, budgets, kernels, stocks);
    if (!flags.out.empty()) {
        const std::string &path = flags.engine.options.model_path;
        write_file(flags.out, evidence(path, flags.against.empty() ? path : flags.against, stocks, rows).dump(2) + "\n",
                   "--out");
        fmt::print("evidence written to {}\n", flags.out);
    }
    std::ranges::for_each(rows, throw_if_different);
    return 0;
}

} // namespace

void add_verify(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<VerifyFlags>();
    CLI::App *command =
        app.add_subcommand("verify", "compare larder's logits with stock llama.cpp's, bit for bit, in two processes");
    add_engine_flags(*command, flags->engine);
    refuse_bad_budgets(
        command
            ->add_option("--ram", flags->ram,
                         "budgets of larder's process, like 4G,8G or 50% of what the machine or cgroup can give "
                         "(default: all of that)")
            ->delimiter(',')
            ->take_all()
            ->group("Model and memory"));
    command->add_option("-p,--prompt", flags->prompt, "the prompt (default: a paragraph of English)");
    command->add_option("-f,--file", flags->prompt_file, "read the prompt from a file");
    command->add_option("--against", flags->against,
                        "another file for stock llama.cpp, as the whole GGUF of a split one (default: the same)");
    command->add_option("-n,--predict", flags->n_predict, "tokens to decode greedily after it")->capture_default_str();
    command->add_option("--out", flags->out, "file for the evidence as JSON; empty for none")->capture_default_str();
    command->callback([flags, &body] { body = [flags] { return verify(*flags); }; });
    add_verify_side(app, body);
}

} // namespace larder

// larder verify: stock llama.cpp and larder on the same prompt, each in a process of its own, logits compared bit for
// bit.
#include "base/bytes.h"
#include "base/unique_fd.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/stats_file.h"
#include "cli/text_file.h"
#include "cli/verify_side.h"

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

// Kernels without a stock twin pass if their logits are on average no farther from stock's repacked ones than this many
// times what stock's own plain ones are: both differ by rounding alone. docs/kernels.md says what was measured.
constexpr double error_bound = 2;

// Stock llama.cpp on one path of kernels.
struct Stock {
    std::string kernels;
    VerifySide side;
};

// Of the logits of all positions against those of stock's repacked path, as parts of a position's largest logit.
struct Errors {
    double mean = 0;        // over positions, of the farthest logit
    double largest = 0;     // of any logit
    size_t same_top = 0;    // positions whose first token is stock's
    double stocks_mean = 0; // the same as `mean` of stock's plain path
};

struct Row { // of the evidence
    std::string ram;
    VerifySide side;
    const Stock *stock;
    std::optional<size_t> difference; // the first position that is not equal; none where that is not asked
    std::optional<Errors> errors;     // of kernels without a twin
    bool passed = true;
};

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

nlohmann::ordered_json figures_of(const nlohmann::ordered_json &figures) {
    nlohmann::ordered_json kept;
    for (const char *name : {"budget_bytes", "budget_source", "arena_bytes", "peak_rss_bytes", "vm_swap_bytes",
                             "bytes_read", "hit_rate", "expert_hits", "expert_misses", "evictions", "prompt_tok_s",
                             "decode_tok_s", "io_backend", "direct_io", "kernels", "ubatch_tokens"}) {
        kept[name] = figures.at(name);
    }
    return kept;
}

nlohmann::ordered_json stock_figures(const Stock &stock) {
    nlohmann::ordered_json kept;
    for (const char *name : {"kernels", "peak_rss_bytes", "vm_swap_bytes", "prompt_tok_s", "decode_tok_s"}) {
        kept[name] = stock.side.figures.at(name);
    }
    return kept;
}

nlohmann::ordered_json evidence(const VerifyFlags &flags, const std::list<Stock> &stocks,
                                const std::vector<Row> &rows) {
    const VerifySide &stock = stocks.front().side;
    nlohmann::ordered_json json = {{"model", flags.engine.options.model_path},
                                   {"against", flags.against.empty() ? flags.engine.options.model_path : flags.against},
                                   {"prompt_tokens", stock.figures.at("prompt_tokens")},
                                   {"decode_tokens", stock.figures.at("decode_tokens")},
                                   {"ubatch_tokens", stock.figures.at("ubatch_tokens")},
                                   {"threads", stock.figures.at("threads")},
                                   {"positions", stock.rows.size()},
                                   {"stock", stock_figures(stocks.front())},
                                   {"stocks", nlohmann::ordered_json::array()},
                                   {"runs", nlohmann::ordered_json::array()}};
    for (const Stock &of_path : stocks) {
        json["stocks"].push_back(stock_figures(of_path));
    }
    bool all_passed = true;
    for (const Row &row : rows) {
        nlohmann::ordered_json run = figures_of(row.side.figures);
        run["against_kernels"] = row.stock->kernels;
        if (row.errors) {
            run["mean_error"] = row.errors->mean;
            run["largest_error"] = row.errors->largest;
            run["stocks_mean_error"] = row.errors->stocks_mean;
            run["error_bound"] = error_bound * row.errors->stocks_mean;
            run["same_top"] = row.errors->same_top;
        } else {
            run["equal"] = !row.difference.has_value();
        }
        if (row.difference) {
            run["first_difference_position"] = *row.difference;
        }
        all_passed = all_passed && row.passed;
        json["runs"].push_back(std::move(run));
    }
    json["all_passed"] = all_passed;
    return json;
}

void print_line(const std::string &name, const nlohmann::ordered_json &figures, const std::string &equal) {
    const bool streams = figures.at("arena_bytes").get<uint64_t>() > 0;
    const auto bytes = [&](const char *key) { return format_bytes(figures.at(key).get<uint64_t>()); };
    fmt::print("{:<14} {:>11} {:>6} {:>11} {:>9} {:>10} {:>9.2f} {:>9.2f}  {}\n", name, bytes("peak_rss_bytes"),
               bytes("vm_swap_bytes"), streams ? bytes("bytes_read") : "-",
               streams ? fmt::format("{:.1f} %", 100 * figures.at("hit_rate").get<double>()) : "-",
               streams ? std::to_string(figures.at("evictions").get<uint64_t>()) : "-",
               figures.at("prompt_tok_s").get<double>(), figures.at("decode_tok_s").get<double>(), equal);
    std::fflush(stdout); // the next side may print to standard error
}

std::vector<std::string> arguments_of(const VerifyFlags &flags, const EngineFlags &engine) {
    std::vector<std::string> arguments = as_arguments(engine);
    arguments.insert(arguments.begin(), "verify-side");
    arguments.insert(arguments.end(), {"-p", flags.prompt, "-n", std::to_string(flags.n_predict)});
    return arguments;
}

std::vector<std::string> larders_arguments(const VerifyFlags &flags, const std::string &ram) {
    std::vector<std::string> arguments = arguments_of(flags, flags.engine);
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
    VerifySide side = run_verify_side("stock llama.cpp", arguments);
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
    std::vector<std::string> arguments = larders_arguments(flags, ram);
    arguments.emplace_back("--plan");
    const VerifySide side = run_verify_side("larder", arguments);
    return {side.figures.at("kernels"), side.figures.at("ubatch_tokens")};
}

// The path of kernels of each budget. All sides must have the same ubatch, since another one gives other last bits:
// where the user names none, `flags` get the smallest that any of the budgets would have.
std::vector<std::string> plan_all(VerifyFlags &flags, const std::vector<std::string> &budgets) {
    std::vector<Planned> planned;
    for (const std::string &ram : budgets) {
        engine_options(flags.engine, ram); // a typo is said at once
        planned.push_back(planned_with(flags, ram));
    }
    flags.engine.options.ubatch_tokens = std::ranges::min(planned, {}, &Planned::ubatch_tokens).ubatch_tokens;
    std::vector<std::string> kernels;
    for (size_t i = 0; i < budgets.size(); i++) {
        if (planned[i].ubatch_tokens != flags.engine.options.ubatch_tokens) { // all experts may fit now
            planned[i] = planned_with(flags, budgets[i]);
        }
        kernels.push_back(planned[i].kernels);
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
        Row row{name_of(budgets[i]), run_verify_side("larder", larders_arguments(flags, budgets[i])), &*stock, {}, {}};
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
        std::vector<std::string> arguments = larders_arguments(flags, ram);
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

int verify(VerifyFlags &flags) {
    if (!flags.prompt_file.empty()) {
        flags.prompt = read_text_file(flags.prompt_file, "-f", MiB);
    }
    check_writable(flags.out, "--out"); // not after an hour
    const std::vector<std::string> budgets = flags.ram.empty() ? std::vector<std::string>{""} : flags.ram;
    const std::vector<std::string> kernels = plan_all(flags, budgets);
    fmt::print("{:<14} {:>11} {:>6} {:>11} {:>9} {:>10} {:>9} {:>9}  {}\n", "", "peak RSS", "swap", "read", "hit rate",
               "evictions", "prompt/s", "decode/s", "equal to stock");
    std::fflush(stdout); // before the sides print to standard error

    std::list<Stock> stocks; // rows point into it
    const std::vector<Row> rows = flags.engine.kernels == "fast" ? compare_errors(flags, budgets, stocks)
                                                                 : compare_bits(flags, budgets, kernels, stocks);
    if (!flags.out.empty()) {
        write_file(flags.out, evidence(flags, stocks, rows).dump(2) + "\n", "--out");
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
        command->add_option("--ram", flags->ram, "budget of larder's process; may be given several times")->take_all());
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

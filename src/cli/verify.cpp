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

// Kernels without a stock twin pass if no logit is farther from stock's than this part of the largest logit of its
// position, and every token that greedy decoding chose is stock's. docs/kernels.md says what was measured.
constexpr float error_bound = 0.02F;

// Stock llama.cpp on one path of kernels.
struct Stock {
    std::string kernels;
    VerifySide side;
};

struct Row { // of the evidence
    std::string ram;
    VerifySide side;
    const Stock *stock;
    bool by_bits; // or within error_bound
    std::optional<size_t> difference;
    float error = 0; // the largest
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

// The first row that is too far from stock's, or from which on greedy decoding went another way.
std::optional<size_t> first_excess(const VerifySide &stock, const VerifySide &ours) {
    const size_t n = std::min(stock.rows.size(), ours.rows.size());
    for (size_t i = 0; i < n; i++) {
        if (ours.rows[i].error > error_bound || ours.rows[i].token != stock.rows[i].token) {
            return i;
        }
    }
    return stock.rows.size() == ours.rows.size() ? std::nullopt : std::optional(n);
}

nlohmann::ordered_json figures_of(const nlohmann::ordered_json &figures) {
    nlohmann::ordered_json kept;
    for (const char *name :
         {"budget_bytes", "budget_source", "arena_bytes", "peak_rss_bytes", "vm_swap_bytes", "bytes_read", "hit_rate",
          "expert_hits", "expert_misses", "evictions", "prompt_tok_s", "decode_tok_s", "io_backend", "direct_io", "kernels"}) {
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

nlohmann::ordered_json evidence(const VerifyFlags &flags, const std::vector<Stock> &stocks,
                                const std::vector<Row> &rows) {
    const VerifySide &stock = stocks.front().side;
    nlohmann::ordered_json json = {{"model", flags.engine.options.model_path},
                                   {"against", flags.against.empty() ? flags.engine.options.model_path : flags.against},
                                   {"prompt_tokens", stock.figures.at("prompt_tokens")},
                                   {"decode_tokens", stock.figures.at("decode_tokens")},
                                   {"ubatch_tokens", flags.engine.options.ubatch_tokens},
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
        if (row.by_bits) {
            run["equal"] = !row.difference.has_value();
        } else {
            run["largest_error"] = row.error;
            run["error_bound"] = error_bound;
        }
        if (row.difference) {
            run["first_difference_position"] = *row.difference;
            all_passed = false;
        }
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

VerifySide run_stock(const VerifyFlags &flags, const std::string &kernels, const std::string &logits_file) {
    EngineFlags engine = flags.engine;
    engine.kernels = kernels;
    if (!flags.against.empty()) {
        engine.options.model_path = flags.against;
    }
    std::vector<std::string> arguments = arguments_of(flags, engine);
    arguments.emplace_back("--stock");
    if (!logits_file.empty()) {
        arguments.insert(arguments.end(), {"--write-logits", logits_file});
    }
    return run_verify_side("stock llama.cpp", arguments);
}

// The path of kernels that this budget will be run on. A budget that will be refused is refused here, before stock
// llama.cpp has run for an hour.
std::string planned_kernels(const VerifyFlags &flags, const std::string &ram) {
    std::vector<std::string> arguments = larders_arguments(flags, ram);
    arguments.emplace_back("--plan");
    return run_verify_side("larder", arguments).figures.at("kernels");
}

Row compare(const VerifyFlags &flags, const Stock &stock, const std::string &ram, bool by_bits,
            const std::string &logits_file) {
    std::vector<std::string> arguments = larders_arguments(flags, ram);
    if (!by_bits) {
        arguments.insert(arguments.end(), {"--reference", logits_file});
    }
    Row row{ram.empty() ? "larder" : "larder " + ram, run_verify_side("larder", arguments), &stock, by_bits, {}};
    for (const LogitsRow &logits : row.side.rows) {
        row.error = std::max(row.error, logits.error);
    }
    const size_t n = stock.side.rows.size();
    if (by_bits) {
        row.difference = first_difference(stock.side.rows, row.side.rows);
        print_line(row.ram, row.side.figures,
                   row.difference ? fmt::format("NO, from position {}", *row.difference)
                                  : fmt::format("yes, {} positions", n));
    } else {
        row.difference = first_excess(stock.side, row.side);
        print_line(row.ram, row.side.figures,
                   fmt::format("{}, by at most {:.1e} of the largest logit, {} positions",
                               row.difference ? "TOO FAR" : "close", row.error, n));
    }
    return row;
}

void throw_if_different(const Row &row) {
    if (!row.difference) {
        return;
    }
    const std::string_view how = row.by_bits ? "differ" : "differ too much";
    throw Error(ErrorKind::differs,
                fmt::format("{}: logits {} from stock llama.cpp from position {} on", row.ram, how, *row.difference),
                row.by_bits ? "this is a bug; please report it with the model's name and the flags"
                            : "use --kernels auto, which is equal to the last bit");
}

int verify(VerifyFlags &flags) {
    if (!flags.prompt_file.empty()) {
        flags.prompt = read_text_file(flags.prompt_file, "-f", MiB);
    }
    check_writable(flags.out, "--out"); // not after an hour
    const std::vector<std::string> budgets = flags.ram.empty() ? std::vector<std::string>{""} : flags.ram;
    std::vector<std::string> kernels; // by budget
    for (const std::string &ram : budgets) {
        engine_options(flags.engine, ram); // a typo is said at once
        kernels.push_back(planned_kernels(flags, ram));
    }
    const bool by_bits = kernels.front() != "fast"; // only the flag makes it so, for all budgets
    fmt::print("{:<14} {:>11} {:>6} {:>11} {:>9} {:>10} {:>9} {:>9}  {}\n", "", "peak RSS", "swap", "read", "hit rate",
               "evictions", "prompt/s", "decode/s", "equal to stock");
    std::fflush(stdout); // before the sides print to standard error

    const TemporaryFile logits;
    const std::string logits_file = by_bits ? "" : logits.path();
    std::vector<Stock> stocks;
    stocks.reserve(budgets.size()); // rows point into it
    std::vector<Row> rows;
    for (size_t i = 0; i < budgets.size(); i++) {
        const std::string twin = by_bits ? kernels[i] : "repacked";
        auto stock = std::ranges::find(stocks, twin, &Stock::kernels);
        if (stock == stocks.end()) {
            stocks.push_back({twin, run_stock(flags, twin, logits_file)});
            stock = stocks.end() - 1;
            print_line("stock", stock->side.figures, twin + " kernels");
        }
        rows.push_back(compare(flags, *stock, budgets[i], by_bits, logits_file));
    }
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
    command->add_option("--ram", flags->ram, "budget of larder's process; may be given several times")->take_all();
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

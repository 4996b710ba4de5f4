// larder verify: stock llama.cpp and larder on the same prompt, each in a process of its own, logits compared bit for
// bit.
#include "base/bytes.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/stats_file.h"
#include "cli/text_file.h"
#include "cli/verify_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
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

struct Row { // of the evidence
    std::string ram;
    VerifySide side;
    std::optional<size_t> difference;
};

nlohmann::ordered_json figures_of(const nlohmann::ordered_json &figures) {
    nlohmann::ordered_json kept;
    for (const char *name :
         {"budget_bytes", "budget_source", "arena_bytes", "peak_rss_bytes", "vm_swap_bytes", "bytes_read", "hit_rate",
          "expert_hits", "expert_misses", "evictions", "prompt_tok_s", "decode_tok_s", "io_backend", "direct_io"}) {
        kept[name] = figures.at(name);
    }
    return kept;
}

nlohmann::ordered_json evidence(const VerifyFlags &flags, const VerifySide &stock, const std::vector<Row> &rows) {
    nlohmann::ordered_json json = {{"model", flags.engine.options.model_path},
                                   {"against", flags.against.empty() ? flags.engine.options.model_path : flags.against},
                                   {"prompt_tokens", stock.figures.at("prompt_tokens")},
                                   {"decode_tokens", stock.figures.at("decode_tokens")},
                                   {"ubatch_tokens", flags.engine.options.ubatch_tokens},
                                   {"threads", stock.figures.at("threads")},
                                   {"positions", stock.rows.size()},
                                   {"stock",
                                    {{"peak_rss_bytes", stock.figures.at("peak_rss_bytes")},
                                     {"vm_swap_bytes", stock.figures.at("vm_swap_bytes")},
                                     {"prompt_tok_s", stock.figures.at("prompt_tok_s")},
                                     {"decode_tok_s", stock.figures.at("decode_tok_s")}}},
                                   {"runs", nlohmann::ordered_json::array()}};
    bool all_passed = true;
    for (const Row &row : rows) {
        nlohmann::ordered_json run = figures_of(row.side.figures);
        run["equal"] = !row.difference.has_value();
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

std::vector<std::string> side_arguments(const VerifyFlags &flags, bool stock) {
    EngineFlags engine = flags.engine;
    if (stock && !flags.against.empty()) {
        engine.options.model_path = flags.against;
    }
    std::vector<std::string> arguments = as_arguments(engine);
    arguments.insert(arguments.begin(), "verify-side");
    arguments.insert(arguments.end(), {"-p", flags.prompt, "-n", std::to_string(flags.n_predict)});
    if (stock) {
        arguments.emplace_back("--stock");
    }
    return arguments;
}

// A budget that will be refused is refused before stock llama.cpp has run for an hour.
void check_budget(const VerifyFlags &flags, const std::string &ram) {
    std::vector<std::string> arguments = side_arguments(flags, false);
    arguments.emplace_back("--plan");
    if (!ram.empty()) {
        arguments.insert(arguments.end(), {"--ram", ram});
    }
    run_verify_side("larder", arguments);
}

Row compare(const VerifyFlags &flags, const VerifySide &stock, const std::string &ram) {
    std::vector<std::string> arguments = side_arguments(flags, false);
    if (!ram.empty()) {
        arguments.insert(arguments.end(), {"--ram", ram});
    }
    Row row{ram.empty() ? "larder" : "larder " + ram, run_verify_side("larder", arguments), std::nullopt};
    row.difference = first_difference(stock.rows, row.side.rows);
    print_line(row.ram, row.side.figures,
               row.difference ? fmt::format("NO, from position {}", *row.difference)
                              : fmt::format("yes, {} positions", stock.rows.size()));
    return row;
}

int verify(VerifyFlags &flags) {
    if (!flags.prompt_file.empty()) {
        flags.prompt = read_text_file(flags.prompt_file, "-f", MiB);
    }
    check_writable(flags.out, "--out"); // not after an hour
    const std::vector<std::string> budgets = flags.ram.empty() ? std::vector<std::string>{""} : flags.ram;
    for (const std::string &ram : budgets) {
        engine_options(flags.engine, ram); // a typo is said at once
        check_budget(flags, ram);
    }
    fmt::print("{:<14} {:>11} {:>6} {:>11} {:>9} {:>10} {:>9} {:>9}  {}\n", "", "peak RSS", "swap", "read", "hit rate",
               "evictions", "prompt/s", "decode/s", "equal to stock");
    std::fflush(stdout); // before the sides print to standard error
    const VerifySide stock = run_verify_side("stock llama.cpp", side_arguments(flags, true));
    print_line("stock", stock.figures, "");

    std::vector<Row> rows;
    for (const std::string &ram : budgets) {
        rows.push_back(compare(flags, stock, ram));
    }
    if (!flags.out.empty()) {
        write_file(flags.out, evidence(flags, stock, rows).dump(2) + "\n", "--out");
        fmt::print("evidence written to {}\n", flags.out);
    }
    for (const Row &row : rows) {
        if (row.difference) {
            throw Error(
                ErrorKind::differs,
                fmt::format("{}: logits differ from stock llama.cpp from position {} on", row.ram, *row.difference),
                "this is a bug; please report it with the model's name and the flags");
        }
    }
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

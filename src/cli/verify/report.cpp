#include "cli/verify/report.h"

#include "base/bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace larder {

namespace {

Json figures_of(const Json &figures) {
    Json kept;
    for (const char *name : {"budget_bytes", "budget_source", "arena_bytes", "peak_rss_bytes", "vm_swap_bytes",
                             "bytes_read", "hit_rate", "expert_hits", "expert_misses", "evictions", "prompt_tok_s",
                             "decode_tok_s", "io_backend", "direct_io", "kernels", "ubatch_tokens"}) {
        kept[name] = figures.at(name);
    }
    return kept;
}

Json stock_figures(const Stock &stock) {
    Json kept;
    for (const char *name : {"kernels", "peak_rss_bytes", "vm_swap_bytes", "prompt_tok_s", "decode_tok_s"}) {
        kept[name] = stock.run.figures.at(name);
    }
    return kept;
}

} // namespace

Json evidence(const std::string &model_path, const std::string &against, const std::list<Stock> &stocks,
              const std::vector<Row> &rows) {
    const VerifyRun &stock = stocks.front().run;
    Json json = {{"model", model_path},
                 {"against", against},
                 {"prompt_tokens", stock.figures.at("prompt_tokens")},
                 {"decode_tokens", stock.figures.at("decode_tokens")},
                 {"ubatch_tokens", stock.figures.at("ubatch_tokens")},
                 {"threads", stock.figures.at("threads")},
                 {"positions", stock.rows.size()},
                 {"stock", stock_figures(stocks.front())},
                 {"stocks", Json::array()},
                 {"runs", Json::array()}};
    for (const Stock &of_path : stocks) {
        json["stocks"].push_back(stock_figures(of_path));
    }
    bool all_passed = true;
    for (const Row &row : rows) {
        Json run = figures_of(row.run.figures);
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
        run["nan_positions"] =
            std::ranges::count_if(row.run.rows, [](const LogitsRow &logits) { return logits.n_nan > 0; });
        if (row.difference) {
            run["first_difference_position"] = *row.difference;
        }
        all_passed = all_passed && row.passed;
        json["runs"].push_back(std::move(run));
    }
    json["all_passed"] = all_passed;
    return json;
}

void print_head() {
    fmt::print("{:<14} {:>11} {:>6} {:>11} {:>9} {:>10} {:>9} {:>9}  {}\n", "", "peak RSS", "swap", "read", "hit rate",
               "evictions", "prompt/s", "decode/s", "equal to stock");
    std::fflush(stdout);
}

void print_line(const std::string &name, const Json &figures, const std::string &equal) {
    const bool streams = figures.at("arena_bytes").get<uint64_t>() > 0;
    const auto bytes = [&](const char *key) { return format_bytes(figures.at(key).get<uint64_t>()); };
    fmt::print("{:<14} {:>11} {:>6} {:>11} {:>9} {:>10} {:>9.2f} {:>9.2f}  {}\n", name, bytes("peak_rss_bytes"),
               bytes("vm_swap_bytes"), streams ? bytes("bytes_read") : "-",
               streams ? fmt::format("{:.1f} %", 100 * figures.at("hit_rate").get<double>()) : "-",
               streams ? std::to_string(figures.at("evictions").get<uint64_t>()) : "-",
               figures.at("prompt_tok_s").get<double>(), figures.at("decode_tok_s").get<double>(), equal);
    std::fflush(stdout);
}

} // namespace larder

#include "cli/tune/report.h"

#include "base/bytes.h"
#include "cli/console/terminal.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace larder {

std::string arena_text(const Tuning &tuning) {
    return tuning.arena_bytes == 0 ? "all that the budget leaves" : format_bytes(tuning.arena_bytes);
}

namespace {

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

} // namespace

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

} // namespace larder

// row.h — a row of `larder bench`: the measurements of one test under one budget, and the figures derived from them.
#pragma once

#include "base/error.h"
#include "cli/bench/run.h"
#include "cli/flags/model_flags.h"
#include "lab/residency/residency.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace larder {

struct BenchRow {
    Budget budget; // empty: what the machine gives, or no arena
    Residency residency = Residency::arena;
    BenchTest test;
    std::vector<Repetition> repetitions;
    // Of the row's last process, under the names of the stats file.
    nlohmann::ordered_json figures = nlohmann::ordered_json::object();
    std::string notice;
    std::optional<Error> error; // why the row has no figures
    int exit_code = 0;          // of the row's process
};

// docs/bench.md defines each figure. A figure is absent if it does not apply or cannot be measured.
struct RowFigures {
    double tok_s = 0;
    double tok_s_stddev = 0;
    std::vector<double> tok_s_samples;
    std::optional<double> hit_rate;
    double bytes_read_token = 0;
    std::optional<double> bytes_dropped_token;
    std::optional<double> bytes_reread_token;
    std::optional<double> stall_ms_token;
    std::optional<double> t_io_ms;
    std::optional<double> t_cpu_ms;
    std::string t_cpu_method; // "token repeated" or "wall - stall"
    std::optional<double> limit_tok_s;
    std::optional<double> serial_tok_s;
    std::optional<double> limit_share;
};

// `disk_bytes_per_second`: W_s; 0 if it was not measured.
RowFigures figures_of(const BenchRow &row, double disk_bytes_per_second);

// 0 if a row was measured and all failed rows failed because of their budget; 3 if all budgets were refused.
int exit_code_of(const std::vector<BenchRow> &rows);

} // namespace larder

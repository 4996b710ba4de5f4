// row.h — a row of `larder bench`: what was measured of one test under one budget, and the figures that follow.
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
    Budget budget; // none: what the machine can give, or no arena
    Residency residency = Residency::arena;
    BenchTest test;
    std::vector<Repetition> repetitions;
    nlohmann::ordered_json figures =
        nlohmann::ordered_json::object(); // of the last process of this row, under the names of the stats file
    std::string notice;
    std::optional<Error> error; // why there are no figures
    int exit_code = 0;          // of the process
};

// docs/bench.md defines each. Absent: it does not apply or nothing tells.
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

// `disk_bytes_per_second`: W_s, 0 where there is none.
RowFigures figures_of(const BenchRow &row, double disk_bytes_per_second);

// 0 if any row could be measured and none failed for anything but its budget; 3 if all budgets were refused.
int exit_code_of(const std::vector<BenchRow> &rows);

} // namespace larder

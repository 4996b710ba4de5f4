#include "cli/bench/row.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>

namespace larder {

namespace {

double mean_of(const std::vector<double> &values) {
    double sum = 0;
    for (const double value : values) {
        sum += value;
    }
    return sum / static_cast<double>(values.size());
}

double stddev_of(const std::vector<double> &values, double mean) {
    double sum = 0;
    for (const double value : values) {
        sum += (value - mean) * (value - mean);
    }
    return values.size() < 2 ? 0 : std::sqrt(sum / static_cast<double>(values.size() - 1));
}

// The limits of disk and processor: the upper one if both work at the same time, the lower one if they alternate.
void add_limits(RowFigures &figures) {
    const bool disk_unknown = figures.bytes_read_token > 0 && !figures.t_io_ms;
    if (!figures.t_cpu_ms || disk_unknown) {
        return;
    }
    const double t_io = figures.t_io_ms.value_or(0);
    const double t_cpu = *figures.t_cpu_ms;
    if (std::max(t_io, t_cpu) > 0) {
        figures.limit_tok_s = 1000 / std::max(t_io, t_cpu);
        figures.serial_tok_s = 1000 / (t_io + t_cpu);
        figures.limit_share = figures.tok_s / *figures.limit_tok_s;
    }
}

} // namespace

RowFigures figures_of(const BenchRow &row, double disk_bytes_per_second) {
    RowFigures figures;
    Repetition sum;
    std::vector<double> cpu_ms;
    bool repeated = true;
    for (const Repetition &repetition : row.repetitions) {
        figures.tok_s_samples.push_back(static_cast<double>(repetition.n_token) * 1000 / repetition.wall_ms);
        sum += repetition;
        repeated = repeated && repetition.token_repeated;
        if (repetition.cpu_ms_token) {
            cpu_ms.push_back(*repetition.cpu_ms_token);
        }
    }
    if (sum.n_token == 0) {
        return figures;
    }
    const auto n_token = static_cast<double>(sum.n_token);
    figures.tok_s = mean_of(figures.tok_s_samples);
    figures.tok_s_stddev = stddev_of(figures.tok_s_samples, figures.tok_s);
    figures.bytes_read_token = static_cast<double>(sum.bytes_read) / n_token;
    if (const uint64_t accesses = sum.expert_hits + sum.expert_misses; accesses > 0) {
        figures.hit_rate = static_cast<double>(sum.expert_hits) / static_cast<double>(accesses);
    }
    if (row.residency == Residency::arena) {
        figures.stall_ms_token = sum.stall_ms / n_token;
    } else if (row.residency == Residency::page) {
        figures.bytes_dropped_token = static_cast<double>(sum.bytes_dropped) / n_token;
        figures.bytes_reread_token = static_cast<double>(sum.bytes_reread) / n_token;
    }
    if (disk_bytes_per_second > 0) {
        figures.t_io_ms = figures.bytes_read_token * 1000 / disk_bytes_per_second;
    }
    if (!cpu_ms.empty()) {
        figures.t_cpu_ms = mean_of(cpu_ms);
        figures.t_cpu_method = repeated ? "token repeated" : "wall - stall";
    }
    add_limits(figures);
    return figures;
}

int exit_code_of(const std::vector<BenchRow> &rows) {
    const int budget = exit_code(ErrorKind::budget);
    int worst = 0;
    bool all_refused = !rows.empty();
    for (const BenchRow &row : rows) {
        all_refused = all_refused && row.exit_code == budget;
        if (row.exit_code != 0 && row.exit_code != budget && worst == 0) {
            worst = row.exit_code > 128 ? 1 : row.exit_code; // ended by a signal
        }
    }
    return all_refused ? budget : worst;
}

} // namespace larder

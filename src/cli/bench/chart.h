// chart.h — the budget curve of `larder bench`: decode rate and hit rate over the budget, as one SVG.
#pragma once

#include "cli/bench/report.h"

#include <string>
#include <vector>

namespace larder {

// Uses the rows with a budget that decode at depth 0 and were measured; each decode length has curves of its own. The
// upper chart shows tokens per second, measured and limit; the lower one shows the hit rate in percent.
std::string budget_curve(const BenchSetting &setting, const std::vector<BenchRow> &rows);

} // namespace larder

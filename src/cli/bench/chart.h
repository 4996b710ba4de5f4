// chart.h — the budget curve of `larder bench`: rate and hit rate of decoding against the budget, as one SVG.
#pragma once

#include "cli/bench/report.h"

#include <string>
#include <vector>

namespace larder {

// Of the rows with a budget that decode after depth 0 and could be measured, each length of decode by itself: the upper
// chart has tokens a second, measured and what the limit is, the lower one the hit rate in percent.
std::string budget_curve(const BenchSetting &setting, const std::vector<BenchRow> &rows);

} // namespace larder

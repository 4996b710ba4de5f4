#include "cli/bench/chart.h"

#include "base/bytes.h"
#include "lab/chart/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace larder {

namespace {

constexpr int chart_width = 720;
constexpr int chart_height = 440;

// Places the charts one below the other.
std::string stacked(const std::vector<std::string> &charts) {
    std::string svg = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
                                  "height=\"{1}\">\n",
                                  chart_width, chart_height * static_cast<int>(charts.size()));
    for (size_t i = 0; i < charts.size(); i++) {
        std::string inner = charts[i];
        for (const char *attribute : {" width=\"", " height=\""}) { // x and y of the outer SVG replace these
            const size_t at = inner.find(attribute);
            if (at < inner.find('>')) {
                inner.erase(at, inner.find('"', inner.find('"', at) + 1) + 1 - at);
            }
        }
        inner.insert(inner.find("<svg") + 4,
                     fmt::format(" y=\"{}\" width=\"{}\" height=\"{}\"", static_cast<int>(i) * chart_height,
                                 chart_width, chart_height));
        svg += inner;
    }
    return svg + "</svg>\n";
}

struct Series {
    ChartSeries tok_s;
    ChartSeries limit;
    ChartSeries hit_rate;
};

} // namespace

std::string budget_curve(const BenchSetting &setting, const std::vector<BenchRow> &rows) {
    std::map<uint32_t, Series> by_length;
    for (const BenchRow &row : rows) {
        if (row.residency != Residency::arena || row.error || row.test.n_prompt > 0 || row.test.depth > 0) {
            continue;
        }
        const RowFigures figures = figures_of(row, setting.disk_bytes_per_second);
        const double budget = row.figures.at("budget_bytes").get<double>() / static_cast<double>(GiB);
        Series &series = by_length[row.test.n_gen];
        series.tok_s.name = row.test.name();
        series.tok_s.points.emplace_back(budget, figures.tok_s);
        series.limit.name = row.test.name() + ", limit";
        series.limit.points.emplace_back(budget, figures.limit_tok_s.value_or(0));
        series.hit_rate.name = row.test.name();
        series.hit_rate.points.emplace_back(budget, 100 * figures.hit_rate.value_or(0));
    }
    Chart rate{setting.model_name + ": decode", "budget, GiB", "tokens a second", {}};
    Chart hits{"hit rate", "budget, GiB", "hits, %", {}};
    for (auto &[n_gen, series] : by_length) {
        for (ChartSeries *line : {&series.tok_s, &series.limit, &series.hit_rate}) {
            std::ranges::sort(line->points);
        }
        rate.series.push_back(series.tok_s);
        rate.series.push_back(series.limit);
        hits.series.push_back(series.hit_rate);
    }
    return stacked({svg_of(rate), svg_of(hits)});
}

} // namespace larder

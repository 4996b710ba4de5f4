// chart.h — line charts as SVG text, for curves that commands also print as tables.
//
// The SVG is self-contained: no scripts, no fonts, and colours that are visible on light and dark pages. Axes include
// zero and have round ticks.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace larder {

struct ChartSeries {
    std::string name;
    std::vector<std::pair<double, double>> points; // x, y; by ascending x
};

struct Chart {
    std::string title;
    std::string x_label;
    std::string y_label;
    std::vector<ChartSeries> series;
};

std::string svg_of(const Chart &chart);

} // namespace larder

// chart.h — line charts as SVG text, for curves that commands print as tables too.
//
// One self-contained SVG: no scripts, no fonts, no colours that vanish on a dark page. Axes begin at zero unless told
// otherwise and carry round ticks.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace larder {

struct ChartSeries {
    std::string name;
    std::vector<std::pair<double, double>> points; // x, y; by rising x
};

struct Chart {
    std::string title;
    std::string x_label;
    std::string y_label;
    std::vector<ChartSeries> series;
};

std::string svg_of(const Chart &chart);

} // namespace larder

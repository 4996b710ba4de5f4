#include "lab/chart/chart.h"

#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace larder {
namespace {

constexpr double width = 720;
constexpr double height = 440;
constexpr double left = 70;
constexpr double right = 160; // space for the names of the series
constexpr double top = 44;
constexpr double bottom = 56;
constexpr int ticks_wanted = 6;

// Medium lightness: visible on white and on black.
constexpr std::array<const char *, 6> colours = {"#3b82f6", "#e0662b", "#2a9d63", "#b14fc5", "#a8841a", "#d03a5c"};
constexpr const char *ink = "#808080";

std::string escaped(const std::string &text) {
    std::string result;
    for (const char c : printable(text)) {
        switch (c) {
        case '&':
            result += "&amp;";
            break;
        case '<':
            result += "&lt;";
            break;
        case '>':
            result += "&gt;";
            break;
        case '"':
            result += "&quot;";
            break;
        default:
            result += c;
        }
    }
    return result;
}

// From zero, or from below zero if there are negative values, to a round end in round steps.
struct Axis {
    double begin = 0;
    double end = 1;
    double step = 1;
};

Axis axis_over(double least, double most) {
    const double low = std::min(least, 0.0);
    const double high = std::max(most, 0.0);
    const double span = high > low ? high - low : 1;
    const double raw = span / ticks_wanted;
    const double power = std::pow(10, std::floor(std::log10(raw)));
    double step = 10 * power;
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power >= raw * (1 - 1e-9)) {
            step = factor * power;
            break;
        }
    }
    return {std::floor(low / step) * step, std::ceil((low + span) / step - 1e-9) * step, step};
}

struct Plane {
    Axis x;
    Axis y;
    [[nodiscard]] double at_x(double value) const {
        return left + (value - x.begin) / (x.end - x.begin) * (width - left - right);
    }
    [[nodiscard]] double at_y(double value) const {
        return height - bottom - (value - y.begin) / (y.end - y.begin) * (height - top - bottom);
    }
};

Plane plane_of(const Chart &chart) {
    std::array<double, 4> bounds = {0, 0, 0, 0};
    for (const ChartSeries &series : chart.series) {
        for (const auto &[x, y] : series.points) {
            if (std::isfinite(x) && std::isfinite(y)) {
                bounds = {std::min(bounds[0], x), std::max(bounds[1], x), std::min(bounds[2], y),
                          std::max(bounds[3], y)};
            }
        }
    }
    return {axis_over(bounds[0], bounds[1]), axis_over(bounds[2], bounds[3])};
}

std::string text_at(double x, double y, const char *anchor, const std::string &text, const char *fill = ink) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n", x, y, anchor, fill,
                       escaped(text));
}

std::string line_between(double x1, double y1, double x2, double y2, double opacity) {
    return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
                       "stroke-opacity=\"{}\"/>\n",
                       x1, y1, x2, y2, ink, opacity);
}

int steps_of(const Axis &axis) { return static_cast<int>(std::lround((axis.end - axis.begin) / axis.step)); }

std::string axes(const Chart &chart, const Plane &plane) {
    std::string svg;
    for (int i = 0; i <= steps_of(plane.x); ++i) {
        const double value = plane.x.begin + i * plane.x.step;
        svg += text_at(plane.at_x(value), height - bottom + 18, "middle", fmt::format("{:.6g}", value));
        svg += line_between(plane.at_x(value), height - bottom, plane.at_x(value), height - bottom + 4, 1);
    }
    for (int i = 0; i <= steps_of(plane.y); ++i) {
        const double value = plane.y.begin + i * plane.y.step;
        svg += text_at(left - 8, plane.at_y(value) + 4, "end", fmt::format("{:.6g}", value));
        svg += line_between(left, plane.at_y(value), width - right, plane.at_y(value), i == 0 ? 1 : 0.25);
    }
    svg += line_between(left, top, left, height - bottom, 1);
    svg += text_at((left + width - right) / 2, height - 14, "middle", chart.x_label);
    svg += fmt::format("<text transform=\"translate(18 {:.1f}) rotate(-90)\" text-anchor=\"middle\" fill=\"{}\">{}"
                       "</text>\n",
                       (top + height - bottom) / 2, ink, escaped(chart.y_label));
    return svg;
}

std::string line_of(const ChartSeries &series, const Plane &plane, const char *colour) {
    std::string svg = fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"", colour);
    std::string dots;
    for (const auto &[x, y] : series.points) {
        if (std::isfinite(x) && std::isfinite(y)) {
            svg += fmt::format("{:.1f},{:.1f} ", plane.at_x(x), plane.at_y(y));
            dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", plane.at_x(x),
                                plane.at_y(y), colour);
        }
    }
    return svg + "\"/>\n" + dots;
}

} // namespace

std::string svg_of(const Chart &chart) {
    const Plane plane = plane_of(chart);
    std::string svg = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
                                  "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n",
                                  width, height);
    svg += text_at(left, 24, "start", chart.title);
    svg += axes(chart, plane);
    for (size_t i = 0; i < chart.series.size(); ++i) {
        const char *const colour = colours[i % colours.size()];
        const double y = top + 12 + 18 * static_cast<double>(i);
        svg += line_of(chart.series[i], plane, colour);
        svg += text_at(width - right + 14, y, "start", chart.series[i].name, colour);
    }
    return svg + "</svg>\n";
}

} // namespace larder

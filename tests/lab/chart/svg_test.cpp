// The contents of a chart, read from its SVG.
#include "lab/chart/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

namespace larder {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t count_of(const std::string &text, const std::string &part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        ++count;
    }
    return count;
}

Chart hit_rates() {
    return {"Hit rate",
            "share of experts, %",
            "hits, %",
            {{"lru", {{10, 50}, {20, 74}, {30, 86}}}, {"MIN", {{10, 74}, {30, 91}}}}};
}

TEST(Svg, ShowsTitleLabelsNamesAndAPointForEachValue) {
    const std::string svg = svg_of(hit_rates());
    for (const char *text : {">Hit rate<", ">share of experts, %<", ">hits, %<", ">lru<", ">MIN<"}) {
        EXPECT_THAT(svg, HasSubstr(text));
    }
    EXPECT_EQ(count_of(svg, "<polyline"), 2U);
    EXPECT_EQ(count_of(svg, "<circle"), 5U);
}

TEST(Svg, TicksAreRoundAndBeginAtZero) {
    const std::string svg = svg_of(hit_rates());
    for (const char *tick : {">0<", ">20<", ">40<", ">60<", ">80<", ">100<", ">5<", ">30<"}) {
        EXPECT_THAT(svg, HasSubstr(tick));
    }
    EXPECT_THAT(svg, Not(HasSubstr(">91<")));
}

TEST(Svg, HigherValuesLieHigherAndInsideTheFrame) {
    const std::string svg = svg_of(hit_rates());
    std::smatch points;
    ASSERT_TRUE(std::regex_search(svg, points, std::regex("points=\"([0-9.]+),([0-9.]+) ([0-9.]+),([0-9.]+) ")));
    EXPECT_LT(std::stod(points[1]), std::stod(points[3]));
    EXPECT_GT(std::stod(points[2]), std::stod(points[4]));
    EXPECT_LT(std::stod(points[2]), 440);
}

TEST(Svg, IsSelfContained) {
    const std::string svg = svg_of(hit_rates());
    EXPECT_THAT(svg, testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    for (const char *no : {"<script", "href", "url(", "<style", "#000", "#fff", "black", "white"}) {
        EXPECT_THAT(svg, Not(HasSubstr(no)));
    }
}

TEST(Svg, TextFromOutsideIsNoMarkup) {
    const std::string svg = svg_of({"<script>&\"", "", "", {{"a<b", {{1, 1}}}}});
    EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&amp;&quot;"));
    EXPECT_THAT(svg, HasSubstr("a&lt;b"));
}

TEST(Svg, NothingOrNonsenseToShowIsStillAChart) {
    for (const Chart &chart :
         {Chart{}, Chart{"t", "x", "y", {{"empty", {}}}}, Chart{"t", "x", "y", {{"one", {{0, 0}}}}},
          Chart{"t", "x", "y", {{"odd", {{1, NAN}, {2, INFINITY}}}}}}) {
        const std::string svg = svg_of(chart);
        EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
        EXPECT_THAT(svg, Not(HasSubstr("nan")));
        EXPECT_THAT(svg, Not(HasSubstr("inf")));
    }
}

} // namespace
} // namespace larder

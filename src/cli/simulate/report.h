// report.h — the result of larder simulate, as a table, JSON, CSV or a curve.
#pragma once

#include "lab/trace/trace.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace larder {

struct SimulatedCell {
    double rate = 0;            // share of accesses that were hits
    double without_prefill = 0; // the same without prefills in between; equal to `rate` if none were requested
};
struct SimulatedRow {
    uint32_t slots = 0;
    std::vector<SimulatedCell> cells; // by policy
};
struct SimulatedTrace {
    RoutingTrace shape;  // a trace without its tokens
    uint64_t tokens = 0; // decoded
    std::vector<SimulatedRow> rows;
};
struct Simulation {
    std::vector<std::string> policies; // the last one is MIN
    uint32_t prefill_between = 0;      // tokens
    bool warm = false;
    std::vector<SimulatedTrace> traces;
};

std::string simulation_table(const Simulation &simulation);
std::string simulation_json(const Simulation &simulation);
std::string simulation_csv(const Simulation &simulation);
std::string simulation_svg(const Simulation &simulation);

} // namespace larder

#include "cli/simulate/report.h"

#include "base/error.h"
#include "lab/chart/chart.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace larder {
namespace {

uint64_t experts_of(const SimulatedTrace &trace) { return uint64_t{trace.shape.n_layer} * trace.shape.n_expert; }

double percent_of(const SimulatedTrace &trace, uint32_t slots) {
    return 100.0 * slots / static_cast<double>(experts_of(trace));
}

std::string conditions(const Simulation &simulation, const SimulatedTrace &trace) {
    const std::string cache =
        simulation.prefill_between > 0
            ? fmt::format("second half of the decode after a prefill of {} (and change from no prefill)",
                          simulation.prefill_between)
            : (simulation.warm ? "cache warm from the prompt" : "cache empty at the first of them");
    return fmt::format("{}: {} layers of {} experts, {} used, {} tokens decoded, {}; hits in %\n",
                       printable(trace.shape.name), trace.shape.n_layer, trace.shape.n_expert, trace.shape.top_k,
                       trace.tokens, cache);
}

// "74.1", or "74.1 (-0.2)": the difference from a run without prefills.
std::string cell_text(const Simulation &simulation, const SimulatedCell &cell) {
    return simulation.prefill_between == 0
               ? fmt::format("{:.1f}", 100 * cell.rate)
               : fmt::format("{:.1f} ({:+.1f})", 100 * cell.rate, 100 * (cell.rate - cell.without_prefill));
}

std::string csv_text(const std::string &text) {
    std::string quoted = "\"";
    for (const char c : printable(text)) {
        quoted += c == '"' ? "\"\"" : std::string(1, c);
    }
    return quoted + "\"";
}

} // namespace

std::string simulation_table(const Simulation &simulation) {
    std::string text;
    for (const SimulatedTrace &trace : simulation.traces) {
        text += text.empty() ? "" : "\n";
        text += conditions(simulation, trace) + "\n| experts cached | of all |";
        std::string rule = "|---:|---:|";
        for (const std::string &policy : simulation.policies) {
            text += fmt::format(" {} |", policy);
            rule += "---:|";
        }
        text += "\n" + rule + "\n";
        for (const SimulatedRow &row : trace.rows) {
            text += fmt::format("| {} | {:.1f} % |", row.slots, percent_of(trace, row.slots));
            for (const SimulatedCell &cell : row.cells) {
                text += fmt::format(" {} |", cell_text(simulation, cell));
            }
            text += "\n";
        }
    }
    return text;
}

std::string simulation_json(const Simulation &simulation) {
    nlohmann::ordered_json json = {{"larder_simulation", 1},
                                   {"cache", simulation.warm ? "warm" : "cold"},
                                   {"prefill_between", simulation.prefill_between},
                                   {"traces", nlohmann::ordered_json::array()}};
    for (const SimulatedTrace &trace : simulation.traces) {
        nlohmann::ordered_json rows = nlohmann::ordered_json::array();
        for (const SimulatedRow &row : trace.rows) {
            nlohmann::ordered_json rates;
            nlohmann::ordered_json without;
            for (size_t i = 0; i < row.cells.size(); ++i) {
                rates[simulation.policies[i]] = row.cells[i].rate;
                without[simulation.policies[i]] = row.cells[i].without_prefill;
            }
            rows.push_back({{"slots", row.slots}, {"share", percent_of(trace, row.slots) / 100}, {"hit_rate", rates}});
            if (simulation.prefill_between > 0) {
                rows.back()["hit_rate_without_prefill"] = without;
            }
        }
        json["traces"].push_back({{"name", trace.shape.name},
                                  {"n_layer", trace.shape.n_layer},
                                  {"n_expert", trace.shape.n_expert},
                                  {"n_expert_used", trace.shape.top_k},
                                  {"tokens", trace.tokens},
                                  {"rows", rows}});
    }
    // A file's name need not be UTF-8.
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string simulation_csv(const Simulation &simulation) {
    std::string text = "trace,slots,share,policy,hit_rate,hit_rate_without_prefill\n";
    for (const SimulatedTrace &trace : simulation.traces) {
        for (const SimulatedRow &row : trace.rows) {
            for (size_t i = 0; i < row.cells.size(); ++i) {
                text += fmt::format("{},{},{:.4f},{},{:.4f},{:.4f}\n", csv_text(trace.shape.name), row.slots,
                                    percent_of(trace, row.slots) / 100, simulation.policies[i], row.cells[i].rate,
                                    row.cells[i].without_prefill);
            }
        }
    }
    return text;
}

std::string simulation_svg(const Simulation &simulation) {
    Chart chart = {"Hit rate by share of experts cached", "experts cached, % of all", "hits, %", {}};
    for (const SimulatedTrace &trace : simulation.traces) {
        for (size_t i = 0; i < simulation.policies.size(); ++i) {
            const std::string &policy = simulation.policies[i];
            ChartSeries series = {
                simulation.traces.size() == 1 ? policy : fmt::format("{} {}", trace.shape.name.substr(0, 12), policy),
                {}};
            for (const SimulatedRow &row : trace.rows) {
                series.points.emplace_back(percent_of(trace, row.slots), 100 * row.cells[i].rate);
            }
            chart.series.push_back(std::move(series));
        }
    }
    return svg_of(chart);
}

} // namespace larder

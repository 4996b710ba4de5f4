// larder simulate: replays routing traces through the store's replacement policies.
#include "base/error.h"
#include "cli/command.h"
#include "cli/console/output_files.h"
#include "cli/console/signals.h"
#include "cli/console/terminal.h"
#include "cli/console/write_file.h"
#include "cli/simulate/report.h"
#include "lab/replay/replay.h"
#include "lab/trace/trace.h"
#include "store/eviction.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace larder {

namespace {

struct SimulateOptions {
    std::vector<std::string> traces;
    std::string slots = "5%,10%,15%,20%,25%,30%,40%,50%";
    std::string policy = "all";
    std::string output = "md";
    std::string svg;
    uint32_t prefill_between = 0;
    bool warm = false;
};

constexpr const char *min_name = "MIN";

// Parses "10%" or "600" as a part of `experts`.
uint32_t slots_from(const std::string &text, uint64_t experts) {
    const bool share = text.ends_with('%');
    const char *const end = text.data() + text.size() - (share ? 1 : 0);
    double value = 0;
    const auto [stopped, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
    const bool is_number = error == std::errc() && stopped == end && std::isfinite(value);
    const double slots = share ? std::floor(value / 100 * static_cast<double>(experts) + 1e-6) : value;
    if (!is_number || slots < 1 || slots > static_cast<double>(experts) || slots != std::floor(slots)) {
        throw Error(ErrorKind::usage,
                    fmt::format("--slots: '{}' is not a number of experts between 1 and the trace's {}",
                                printable(text), experts),
                    "use shares or numbers, as in --slots 10%,25% or --slots 600,1500");
    }
    return static_cast<uint32_t>(slots);
}

std::vector<uint32_t> slots_list(const std::string &text, uint64_t experts) {
    std::vector<uint32_t> list;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        list.push_back(slots_from(text.substr(begin, end - begin), experts));
        begin = end + 1;
    }
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
}

std::vector<std::string> policies_from(const std::string &name) {
    const auto known = eviction_policies();
    std::vector<std::string> policies;
    if (name == "all") {
        policies.assign(known.begin(), known.end());
    } else if (std::ranges::find(known, name) != known.end()) {
        policies.push_back(name);
    } else {
        throw Error(ErrorKind::usage, fmt::format("--policy: there is no policy '{}'", printable(name)),
                    fmt::format("use all, or one of {}", fmt::join(known, ", ")));
    }
    policies.emplace_back(min_name);
    return policies;
}

double rate_of(const RoutingTrace &trace, const std::vector<Ubatch> &ubatches, uint32_t slots,
               const std::string &policy) {
    const ReplayCount count =
        policy == min_name ? replay_min(trace, ubatches, slots) : replay(trace, ubatches, slots, policy);
    return count.decode.rate();
}

SimulatedTrace simulate_trace(const std::string &path, const SimulateOptions &options,
                              const std::vector<std::string> &policies) {
    const RoutingTrace trace = read_trace(path);
    const bool between = options.prefill_between > 0;
    const auto ubatches =
        between ? decode_around_prefill(trace, options.prefill_between) : decode_of(trace, options.warm);
    const auto without = between ? decode_around_prefill(trace, 0) : std::vector<Ubatch>{};

    SimulatedTrace result;
    result.shape = trace;
    result.shape.tokens.clear();
    result.tokens = static_cast<uint64_t>(std::ranges::count(trace.tokens, TracePhase::decode, &TraceToken::phase));
    for (const uint32_t slots : slots_list(options.slots, uint64_t{trace.n_layer} * trace.n_expert)) {
        SimulatedRow row{slots, {}};
        for (const std::string &policy : policies) {
            const double rate = rate_of(trace, ubatches, slots, policy);
            row.cells.push_back({rate, between ? rate_of(trace, without, slots, policy) : rate});
        }
        result.rows.push_back(std::move(row));
    }
    return result;
}

void check_output(const SimulateOptions &options) {
    std::vector<NamedFile> inputs;
    for (const std::string &path : options.traces) {
        inputs.push_back({"TRACE", path});
    }
    refuse_overwriting(inputs, {{"--svg", options.svg}});
    check_replaceable(options.svg, "--svg");
}

int simulate(const SimulateOptions &options) {
    const Signals signals; // so that Ctrl-C also ends a background process
    check_output(options);
    Simulation simulation;
    simulation.policies = policies_from(options.policy);
    simulation.prefill_between = options.prefill_between;
    simulation.warm = options.warm;
    for (const std::string &path : options.traces) {
        simulation.traces.push_back(simulate_trace(path, options, simulation.policies));
    }
    if (!options.svg.empty()) {
        write_file(options.svg, simulation_svg(simulation), "--svg");
    }
    print_now(options.output == "json"  ? simulation_json(simulation)
              : options.output == "csv" ? simulation_csv(simulation)
                                        : simulation_table(simulation));
    return 0;
}

} // namespace

void add_simulate(CLI::App &app, CommandBody &body) {
    constexpr uint32_t prefill_max = 1U << 16; // the replayed tokens are held in memory
    auto options = std::make_shared<SimulateOptions>();
    CLI::App *command = app.add_subcommand(
        "simulate", "replay routing traces, and print the hit rates of eviction policies and of Belady's MIN");
    command->add_option("trace", options->traces, "routing traces, see docs/traces.md")->required();
    command
        ->add_option(
            "--slots", options->slots,
            "how many experts are cached, as shares of all experts or as numbers (here one expert fills one slot)")
        ->capture_default_str();
    command->add_option("--policy", options->policy, "all, or the name of one policy")->capture_default_str();
    CLI::Option *between =
        command
            ->add_option(
                "--prefill-between", options->prefill_between,
                "count only the second half of the decode, after a prefill of this many tokens of another topic")
            ->check(CLI::Range(uint32_t{1}, prefill_max));
    command->add_option("-o,--output", options->output, "md, json or csv")
        ->check(CLI::IsMember({"md", "json", "csv"}))
        ->capture_default_str();
    command->add_option("--svg", options->svg, "write a chart of the hit rates to this file");
    command
        ->add_flag("--warm,!--cold", options->warm,
                   "--warm: replay the prompt first; --cold: begin with an empty cache at the first decoded token")
        ->excludes(between);
    command->callback([options, &body] { body = [options] { return simulate(*options); }; });
}

} // namespace larder

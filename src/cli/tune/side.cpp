#include "cli/tune/side.h"

#include "cli/child/child_process.h"
#include "cli/child/side.h"
#include "engine/engine.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <memory>
#include <vector>

namespace larder {

namespace {

using Json = nlohmann::ordered_json;

struct SideFlags {
    EngineFlags engine;
    std::string ram;
};

void tell_plan(const SideFlags &flags) {
    const PlannedRun planned = plan_only(engine_options(flags.engine, flags.ram));
    tell("plan", {{"ctx_tokens", planned.ctx_tokens},
                  {"threads", planned.threads},
                  {"ubatch_tokens", planned.memory.ubatch_tokens},
                  {"arena_bytes", planned.memory.arena_bytes},
                  {"floor_bytes", planned.memory.floor_bytes}});
}

StartingPoint start_from(const Json &plan) {
    return {plan.at("ctx_tokens"), plan.at("threads"), plan.at("ubatch_tokens"), plan.at("arena_bytes"),
            plan.at("floor_bytes")};
}

ErrorKind kind_of(int code) {
    return code == exit_code(ErrorKind::budget)  ? ErrorKind::budget
           : code == exit_code(ErrorKind::usage) ? ErrorKind::usage
                                                 : ErrorKind::engine;
}

} // namespace

Error side_error(const std::string &told, int code) {
    if (!told.empty()) {
        return {kind_of(code), told};
    }
    return {kind_of(code), code > 128 ? fmt::format("its process was killed by signal {}", code - 128)
                                      : fmt::format("its process failed with exit code {}", code)};
}

std::optional<StartingPoint> planned_in_side(const EngineFlags &flags, const std::string &ram) {
    std::vector<std::string> arguments = as_arguments(flags);
    arguments.insert(arguments.begin(), "tune-side");
    if (!ram.empty()) {
        arguments.insert(arguments.end(), {"--ram", ram});
    }
    ChildProcess child(arguments);
    Json plan;
    std::string told;
    for (std::string line; child.read_line(line);) {
        const auto json = Json::parse(line, nullptr, false);
        if (json.is_discarded()) {
            break; // it died in the middle of a line
        }
        if (json.contains("plan")) {
            plan = json.at("plan");
        } else if (json.contains("error")) {
            told = json.at("error").get<std::string>();
        }
    }
    const int code = child.wait();
    if (code == 128 + SIGINT || code == 128 + SIGTERM) { // Ctrl-C on a terminal reaches all processes
        return std::nullopt;
    }
    if (code != 0 || plan.is_null()) {
        throw side_error(told, code);
    }
    return start_from(plan);
}

void add_tune_side(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<SideFlags>();
    CLI::App *command = app.add_subcommand("tune-side", "the plan where tune begins")->group("");
    add_engine_flags(*command, flags->engine);
    command->add_option("--ram", flags->ram);
    command->callback([flags, &body] { body = [flags] { return run_side([&flags] { tell_plan(*flags); }); }; });
}

} // namespace larder

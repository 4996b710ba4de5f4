// side.h — the process that makes the plan where the search of `larder tune` begins.
//
// It is one of its own, as those of the trials are: what planning leaves in a process would be missing in theirs where
// a cgroup's limit is the budget. It prints one JSON line: {"plan":…}, or {"error":…} and the error's exit code.
#pragma once

#include "base/error.h"
#include "cli/command.h"
#include "cli/flags/engine_flags.h"

#include <cstdint>
#include <optional>
#include <string>

namespace larder {

// What run would take with these flags.
struct StartingPoint {
    uint32_t ctx_tokens = 0;
    uint32_t threads = 0;
    uint32_t ubatch_tokens = 0;
    uint64_t arena_bytes = 0;
    uint64_t floor_bytes = 0;
};

// Nothing if somebody ended the process. Throws Error with what it said, of the kind that its exit code tells.
std::optional<StartingPoint> planned_in_side(const EngineFlags &flags, const std::string &ram);

// Of a process that ended with this exit code: with what it told, or how it ended where that is empty.
Error side_error(const std::string &told, int code);

// The hidden subcommand tune-side.
void add_tune_side(CLI::App &app, CommandBody &body);

} // namespace larder

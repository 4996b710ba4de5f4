// side.h — the process that measures one row of `larder bench`, and what it tells the process that asked.
//
// It prints JSON lines: {"notice":…} where something fell back, one {"repetition":…} each, then {"figures":…} under the
// names of the stats file; or {"error":…} and the error's exit code.
#pragma once

#include "cli/bench/run.h"
#include "cli/command.h"

#include <nlohmann/json.hpp>

namespace larder {

// The hidden subcommand bench-side.
void add_bench_side(CLI::App &app, CommandBody &body);

nlohmann::ordered_json to_json(const Repetition &repetition);
Repetition repetition_from(const nlohmann::ordered_json &json);

} // namespace larder

// side.h — the process that measures one reserve of `larder calibrate`, and what it tells the one that asked.
//
// It prints one JSON line: {"figures":…} under the names of the stats file, with its peak of anonymous memory; or
// {"error":…} and the error's exit code.
#pragma once

#include "cli/command.h"

namespace larder {

// The hidden subcommand calibrate-side.
void add_calibrate_side(CLI::App &app, CommandBody &body);

} // namespace larder

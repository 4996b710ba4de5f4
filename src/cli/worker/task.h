// task.h — what a larder process does that another one started: one task, given as JSON, its findings told as JSON.
//
// The hidden subcommand `worker` reads a job from standard input, {"task": "…", …}, and runs it. A task prints what it
// finds to standard output, an object a line, as soon as it has it. What ends it is its last line: {"error": {…}}.
#pragma once

#include "cli/command.h"
#include "session/open_model.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace larder {

using Json = nlohmann::ordered_json;

// Writes {"what": value} as one line to standard output, now.
void tell(const char *what, Json value);

// Options in a job, without their callbacks.
Json to_json(const OpenOptions &options);
OpenOptions open_options_from(const Json &json);

// The tasks. Each throws what goes wrong.
void bench_task(const Json &job);
void calibrate_task(const Json &job);
void plan_task(const Json &job);
void verify_task(const Json &job);

// The hidden subcommand.
void add_worker(CLI::App &app, CommandBody &body);

} // namespace larder

// task.h — the worker process: runs one task, given as JSON, and writes its results as JSON.
//
// The hidden subcommand `worker` reads a job {"task": "…", …} from standard input and runs it. A task writes each
// result to standard output at once, one object per line. If the task fails, its last line is {"error": {…}}.
#pragma once

#include "cli/command.h"
#include "session/open_model.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace larder {

using Json = nlohmann::ordered_json;

// Writes {"what": value} as one line to standard output, without buffering.
void tell(const char *what, Json value);

// The options of a job, without their callbacks.
Json to_json(const OpenOptions &options);
OpenOptions open_options_from(const Json &json);

// The tasks. They throw their errors.
void bench_task(const Json &job);
void calibrate_task(const Json &job);
void plan_task(const Json &job);
void verify_task(const Json &job);

// The hidden subcommand.
void add_worker(CLI::App &app, CommandBody &body);

} // namespace larder

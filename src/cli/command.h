// command.h — what main.cpp and the files of the subcommands agree on.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace larder {

// What the chosen subcommand does; returns the exit code. Errors are thrown and reported by main().
using CommandBody = std::function<int()>;

// Each adds its subcommand with its options to `app` and, when it is chosen on the command line, sets `body`.
void add_bench(CLI::App &app, CommandBody &body);
void add_calibrate(CLI::App &app, CommandBody &body);
void add_inspect(CLI::App &app, CommandBody &body);
void add_plan(CLI::App &app, CommandBody &body);
void add_probe(CLI::App &app, CommandBody &body);
void add_run(CLI::App &app, CommandBody &body);
void add_simulate(CLI::App &app, CommandBody &body);
void add_verify(CLI::App &app, CommandBody &body);

} // namespace larder

// command.h — the interface between main.cpp and the subcommands.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace larder {

// Runs the chosen subcommand and returns the exit code. It throws errors; main() reports them.
using CommandBody = std::function<int()>;

// Each function adds its subcommand and its options to `app`, and sets `body` if the command line chooses it.
void add_bench(CLI::App &app, CommandBody &body);
void add_calibrate(CLI::App &app, CommandBody &body);
void add_inspect(CLI::App &app, CommandBody &body);
void add_plan(CLI::App &app, CommandBody &body);
void add_probe(CLI::App &app, CommandBody &body);
void add_run(CLI::App &app, CommandBody &body);
void add_simulate(CLI::App &app, CommandBody &body);
void add_tune(CLI::App &app, CommandBody &body);
void add_verify(CLI::App &app, CommandBody &body);

} // namespace larder

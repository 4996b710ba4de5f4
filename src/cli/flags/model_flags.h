// model_flags.h — the flags every command that loads a model shares. Names are llama.cpp's where it has one.
//
// Flags are parsed once, on the command line, into the options that the runtime takes.
#pragma once

#include "session/open_model.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace larder {

inline constexpr uint32_t batch_tokens_max = 1U << 24; // of -b: beyond any context

// --ram: as it was given, to be named again, and what it is. Without one: what the machine can give.
struct Budget {
    std::string text;
    std::optional<uint64_t> bytes; // of a share: of what the machine could give when it was parsed
};
// "8G", "50%". Throws Error(usage).
Budget parse_budget(const std::string &text);

// The options with this budget.
OpenOptions with_budget(const OpenOptions &options, const Budget &budget);

// Adds -m, -c, -t and so on. --ram is added apart, as some commands take several.
void add_model_flags(CLI::App &command, OpenOptions &options);

// Adds -m, which is a positional argument too, and makes the command line refuse to do without.
CLI::Option *add_model_flag(CLI::App &command, std::string &path);

// Adds --ram, the budget of the whole process: one value, or a list.
void add_budget_flag(CLI::App &command, Budget &budget);
void add_budgets_flag(CLI::App &command, std::vector<Budget> &budgets, const std::string &description);

// Adds -b.
void add_batch_flag(CLI::App &command, OpenOptions &options);

// Adds -o, --output: a table in Markdown or JSON.
void add_output_flag(CLI::App &command, std::string &output);

// Adds --io and --direct-io.
void add_reader_flags(CLI::App &command, ReaderOptions &reader);

} // namespace larder

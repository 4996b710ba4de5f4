// model_flags.h — flags of all commands that load a model. They have llama.cpp's names where llama.cpp has the flag.
//
// The command line is parsed once, into the options of the runtime.
#pragma once

#include "session/open_model.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace larder {

inline constexpr uint32_t batch_tokens_max = 1U << 24; // of -b: larger than any context

// --ram as text, for messages and workers, and as bytes. Without a value: what the machine gives.
struct Budget {
    std::string text;
    std::optional<uint64_t> bytes; // for a percentage: of the available memory at the time of parsing
};
// Parses "8G" or "50%". Throws Error(usage).
Budget parse_budget(const std::string &text);

// A copy of the options with this budget.
OpenOptions with_budget(const OpenOptions &options, const Budget &budget);

// Adds -m, -c, -t and so on. --ram is separate, because some commands take several values.
void add_model_flags(CLI::App &command, OpenOptions &options);

// Adds -m, which is also a positional argument and is required.
CLI::Option *add_model_flag(CLI::App &command, std::string &path);

// Adds --ram, the budget of the whole process: one value or a list.
void add_budget_flag(CLI::App &command, Budget &budget);
void add_budgets_flag(CLI::App &command, std::vector<Budget> &budgets, const std::string &description);

// Adds -b.
void add_batch_flag(CLI::App &command, OpenOptions &options);

// Adds -o, --output: a Markdown table or JSON.
void add_output_flag(CLI::App &command, std::string &output);

// Adds --io and --direct-io.
void add_reader_flags(CLI::App &command, ReaderOptions &reader);

} // namespace larder

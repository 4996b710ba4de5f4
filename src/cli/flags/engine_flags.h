// engine_flags.h — the flags every command that loads a model shares. Names are llama.cpp's where it has one.
#pragma once

#include "engine/engine.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace larder {

inline constexpr uint32_t batch_tokens_max = 1U << 24; // of -b: beyond any context

// What the flags said. Values stay as text where their meaning needs a check that names the flag.
struct EngineFlags {
    EngineOptions options;
    int32_t threads = 0; // below 1: the default, as llama.cpp's -1
    int32_t threads_batch = 0;
    std::string reserve;
    std::string arena;
    std::string flash_attention = "auto";
    std::string io_backend = "auto";
    std::string direct_io = "auto";
    uint32_t io_depth = 0; // 0: the default
    std::string kernels = "auto";
};

// Adds -m, -c, -t and so on. --ram is added apart, as some commands take several.
void add_engine_flags(CLI::App &command, EngineFlags &flags);

// Adds -m, which is a positional argument too, and makes the command line refuse to do without.
CLI::Option *add_model_flag(CLI::App &command, std::string &path);

// Adds --ram, the budget of the whole process, one value.
void add_budget_flag(CLI::App &command, std::string &ram);

// Adds -o, --output: a table in Markdown or JSON.
void add_output_flag(CLI::App &command, std::string &output);

// Makes the command line refuse what is no budget: sizes like 8G and shares like 50% of what the machine can give are.
void refuse_bad_budgets(CLI::Option *ram);

// Adds --io and --direct-io, and what they say.
void add_reader_flags(CLI::App &command, std::string &io_backend, std::string &direct_io);
ReaderOptions reader_options(const std::string &io_backend, const std::string &direct_io);

// The options with `ram` as budget (empty: what the machine can give, of which a share is taken now). Throws
// Error(usage).
EngineOptions engine_options(const EngineFlags &flags, const std::string &ram);

// The same flags as arguments for another larder process.
std::vector<std::string> as_arguments(const EngineFlags &flags);

} // namespace larder

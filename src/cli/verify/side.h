// side.h — one side of `larder verify`: evaluates a prompt and decodes greedily, in a process of its own, and
// writes one JSON line for every token's logits and one with its figures.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"

#include <cstdint>
#include <string>
#include <vector>

namespace larder {

// The logits of one position, told apart by their digest.
struct LogitsRow {
    uint32_t position = 0;
    int32_t token = 0;  // evaluated at this position
    std::string digest; // XXH3-128 of n_vocab floats
    int32_t top = 0;    // token of the largest logit
    float top_logit = 0;
    float error = 0; // with a reference: of the logit that is farthest from it, as a part of the reference's largest
};

struct VerifySide {
    std::vector<LogitsRow> rows;
    nlohmann::ordered_json figures; // as in the stats file; with --plan what was planned
};

inline constexpr const char *stock_name = "stock llama.cpp";

// Runs the side with these arguments in another process. Throws Error with the side's exit code in its text.
VerifySide run_verify_side(const std::string &name, const std::vector<std::string> &arguments);

// The hidden subcommand that the other process runs.
void add_verify_side(CLI::App &app, CommandBody &body);

} // namespace larder

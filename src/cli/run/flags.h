// flags.h — the flags of larder run.
#pragma once

#include "cli/command.h"
#include "cli/flags/model_flags.h"
#include "cli/flags/residency_flags.h"
#include "session/session.h"

#include <cstdint>
#include <string>

namespace larder {

struct RunFlags {
    OpenOptions open;
    Budget budget;
    SamplingOptions sampling;
    Residency residency = Residency::arena;
    PageFlags page;
    std::string trace_path;
    std::string prompt;
    std::string prompt_file;
    std::string system_prompt;
    std::string stats_path;
    std::string grammar_file;
    int32_t n_predict = -1;
    bool one_answer = false; // a prompt was given
    bool raw = false;
    bool special = false;
    bool quiet = false;
    bool no_profile = false;
};

// Adds all flags of the command. `flags` must outlive the parsing.
void add_run_flags(CLI::App &command, RunFlags &flags);

} // namespace larder

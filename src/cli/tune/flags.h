// flags.h — the flags of larder tune.
#pragma once

#include "cli/bench/runner.h"
#include "cli/flags/model_flags.h"

#include <cstdint>
#include <string>

namespace larder {

struct TuneFlags {
    BenchFlags bench; // its options are the starting point of the search
    Budget budget;
    BenchTest job = {128, 32, 0};
    uint32_t gain_percent = 3;
    std::string profile;
    std::string output = "md";
    bool quiet = false;
};

} // namespace larder

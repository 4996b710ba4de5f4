// task.h — measures one row of `larder bench` in a separate process (worker/task.h).
#pragma once

#include "cli/bench/run.h"
#include "cli/worker/task.h"
#include "lab/pager/pager.h"
#include "lab/residency/residency.h"

#include <cstdint>
#include <string>

namespace larder {

struct BenchJob {
    OpenOptions open;
    Residency residency = Residency::arena;
    PagerOptions pager;
    BenchTest test;
    BenchInput input;
    std::string text_file; // replaces the text of the input, if not empty
    uint64_t first = 1;    // number of the first repetition
    uint64_t repetitions = 1;
    bool warmup = false; // run one more repetition first, and discard it
    bool cold = false;   // empty the page cache first
};
Json to_json(const BenchJob &job);

// Output of the task: {"notice": …}, one {"repetition": {…}} per repetition, {"figures": {…}}.
Repetition repetition_from(const Json &json);

} // namespace larder

// task.h — the measurement of one row of `larder bench`, in a process of its own (worker/task.h).
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
    std::string text_file; // in place of the input's text, if not empty
    uint64_t first = 1;    // number of the first repetition
    uint64_t repetitions = 1;
    bool warmup = false; // one more before them that does not count
    bool cold = false;   // an empty page cache first
};
Json to_json(const BenchJob &job);

// What the task tells: {"notice": …}, {"repetition": {…}} for each, {"figures": {…}}.
Repetition repetition_from(const Json &json);

} // namespace larder

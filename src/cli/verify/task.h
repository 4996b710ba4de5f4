// task.h — one run of `larder verify`, in a process of its own (worker/task.h): evaluates a prompt, decodes greedily
// and tells of every position's logits.
#pragma once

#include "cli/worker/task.h"

#include <cstdint>
#include <string>
#include <vector>

namespace larder {

struct VerifyJob {
    OpenOptions open;
    bool stock = false; // llama.cpp's own loader
    std::string prompt;
    uint32_t n_predict = 0;
    std::string write_logits; // a file for all logits; empty for none
    std::string reference;    // such a file, to follow its tokens and to be compared with; empty for none
};

// The logits of one position, told apart by their digest.
struct LogitsRow {
    uint32_t position = 0;
    int32_t token = 0;  // evaluated at this position
    std::string digest; // XXH3-128 of n_vocab floats
    int32_t top = 0;    // token of the largest logit
    float top_logit = 0;
    uint32_t n_nan = 0; // logits that are no number
    float error = 0;    // with a reference: of the logit that is farthest from it, as a part of the reference's largest
};

struct VerifyRun {
    std::vector<LogitsRow> rows;
    Json figures; // as in the stats file
};

inline constexpr const char *stock_name = "stock llama.cpp";

// Runs the job in another process. Throws what it told, with `name` before it.
VerifyRun run_verify_worker(const std::string &name, const VerifyJob &job);

} // namespace larder

// task.h — one run of `larder verify` in a separate process (worker/task.h): evaluates a prompt, decodes greedily, and
// reports the logits of each position.
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
    std::string write_logits; // file for all logits; may be empty
    // A file of that kind, whose tokens are followed and whose logits are compared; may be empty.
    std::string reference;
};

// The logits of one position, identified by their digest.
struct LogitsRow {
    uint32_t position = 0;
    int32_t token = 0;  // evaluated at this position
    std::string digest; // XXH3-128 of n_vocab floats
    int32_t top = 0;    // token of the largest logit
    float top_logit = 0;
    uint32_t n_nan = 0; // number of logits that are NaN
    float error = 0;    // with a reference: the largest error, as a fraction of the reference's largest logit
};

struct VerifyRun {
    std::vector<LogitsRow> rows;
    Json figures; // as in the stats file
};

inline constexpr const char *stock_name = "stock llama.cpp";

// Runs the job in another process. Throws the error that it reported, prefixed with `name`.
VerifyRun run_verify_worker(const std::string &name, const VerifyJob &job);

} // namespace larder

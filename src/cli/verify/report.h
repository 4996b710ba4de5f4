// report.h — what `larder verify` found: lines of a table while it runs, and the evidence as JSON.
#pragma once

#include "cli/verify/task.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <vector>

namespace larder {

// Kernels without a stock twin pass if their logits are on average no farther from stock's repacked ones than this many
// times what stock's own plain ones are: both differ by rounding alone. docs/kernels.md says what was measured.
constexpr double error_bound = 2;

// Stock llama.cpp on one path of kernels.
struct Stock {
    std::string kernels;
    VerifyRun run;
};

// Of the logits of all positions against those of stock's repacked path, as parts of a position's largest logit.
struct Errors {
    double mean = 0;        // over positions, of the farthest logit
    double largest = 0;     // of any logit
    size_t same_top = 0;    // positions whose first token is stock's
    double stocks_mean = 0; // the same as `mean` of stock's plain path
};

struct Row { // of the evidence
    std::string ram;
    VerifyRun run;
    const Stock *stock;
    std::optional<size_t> difference; // the first position that is not equal; none where that is not asked
    std::optional<Errors> errors;     // of kernels without a twin
    bool passed = true;
};

// All that was found, with `all_passed` over the rows.
Json evidence(const std::string &model_path, const std::string &against, const std::list<Stock> &stocks,
              const std::vector<Row> &rows);

// To standard output, now: the next process may print to standard error.
void print_head();
void print_line(const std::string &name, const Json &figures, const std::string &equal);

} // namespace larder

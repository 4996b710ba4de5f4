// report.h — the result of `larder verify`: table lines while it runs, and the evidence as JSON.
#pragma once

#include "cli/verify/task.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <vector>

namespace larder {

// Kernels that stock llama.cpp does not have pass if the mean error of their logits against stock's repacked kernels is
// at most this many times the mean error of stock's plain kernels. Both errors are rounding only. docs/kernels.md has
// measurements.
constexpr double error_bound = 2;

// Stock llama.cpp with one choice of kernels.
struct Stock {
    std::string kernels;
    VerifyRun run;
};

// Errors of the logits of all positions against stock's repacked kernels, as a fraction of the position's largest
// logit.
struct Errors {
    double mean = 0;        // mean over all positions of the position's largest error
    double largest = 0;     // the largest error of all
    size_t same_top = 0;    // positions with the same top token as stock
    double stocks_mean = 0; // `mean` for stock's plain kernels
};

struct Row { // of the evidence
    std::string ram;
    VerifyRun run;
    const Stock *stock;
    std::optional<size_t> difference; // first position that differs; empty if bits are not compared
    std::optional<Errors> errors;     // for kernels that stock does not have
    bool passed = true;
};

// The whole result as JSON. `all_passed` is true if all rows passed.
Json evidence(const std::string &model_path, const std::string &against, const std::list<Stock> &stocks,
              const std::vector<Row> &rows);

// Both write to standard output without buffering, because the next process may write to standard error.
void print_head();
void print_line(const std::string &name, const Json &figures, const std::string &equal);

} // namespace larder

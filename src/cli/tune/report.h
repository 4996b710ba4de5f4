// report.h — prints the result of larder tune to standard output.
#pragma once

#include "cli/tune/flags.h"
#include "lab/tune/tune.h"

#include <string>

namespace larder {

// "all that the budget leaves", or the size.
std::string arena_text(const Tuning &tuning);

// `path`: of the profile; empty if it could not be written.
void print_result(const TuneFlags &flags, const TuneResult &result, const std::string &path);

} // namespace larder

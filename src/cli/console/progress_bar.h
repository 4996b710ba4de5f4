// progress_bar.h — a progress bar on the terminal for reading resident weights.
#pragma once

#include <cstdint>
#include <functional>

namespace larder {

// For RuntimeOptions::progress: draws a bar on standard error and removes it at the end. Empty if standard error is not
// a terminal.
std::function<void(uint64_t bytes_done, uint64_t bytes_total)> progress_bar();

} // namespace larder

// progress_bar.h — how far the resident weights are, on a terminal.
#pragma once

#include <cstdint>
#include <functional>

namespace larder {

// For EngineOptions::progress: draws a bar on standard error and removes it when done. Empty if standard error is not a
// terminal.
std::function<void(uint64_t bytes_done, uint64_t bytes_total)> progress_bar();

} // namespace larder

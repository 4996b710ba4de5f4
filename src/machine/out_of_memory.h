// out_of_memory.h — errors for memory and threads that the kernel refused.
//
// Threads: any, but keep_memory_for_errors(), which comes before the first thread.
#pragma once

#include "base/error.h"

#include <string>
#include <system_error>

namespace larder {

// Sets some memory aside that out_of_memory() frees, so that its message can be built. Does nothing where no limit of
// addresses is set: without one, small allocations do not fail.
void keep_memory_for_errors();

// The kernel refused memory: Error(budget) that names the limits of addresses where there are any, else Error(io).
Error out_of_memory(const std::string &what = "out of memory");

// The kernel refused a thread.
Error no_thread(const std::error_code &code);

} // namespace larder

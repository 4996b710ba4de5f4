// out_of_memory.h — errors for memory and threads that the kernel refused.
//
// Threads: any, except keep_memory_for_errors(), which must be called before any thread starts.
#pragma once

#include "base/error.h"

#include <string>
#include <system_error>

namespace larder {

// Reserves memory that out_of_memory() frees to build its message. Does nothing if no limit of the address space is
// set: small allocations do not fail then.
void keep_memory_for_errors();

// For a failed allocation: Error(budget) that names the limits of the address space if there are any, else Error(io).
Error out_of_memory(const std::string &what = "out of memory");

// For a thread that could not start.
Error no_thread(const std::error_code &code);

} // namespace larder

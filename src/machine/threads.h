// threads.h — the threads of this process: their stacks, how many run, and whether more can start.
//
// Units: bytes. Threads: any.
#pragma once

#include "base/bytes.h"

#include <cstdint>

namespace larder {

// The stack of every thread that the process starts, after set_up_process(). main()'s is as large as ulimit -s says.
inline constexpr uint64_t thread_stack_bytes = 2 * MiB;

// Threads of this process beside main().
uint64_t threads_running();

// Starts `threads` threads that live at the same time, and ends them. Throws no_thread() (out_of_memory.h) if one
// cannot start: OpenMP would end the process.
void check_threads_can_start(uint32_t threads);

} // namespace larder

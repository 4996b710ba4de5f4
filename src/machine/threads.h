// threads.h — the threads of this process: stack size, number, and whether more can start.
//
// Units: bytes. Threads: any.
#pragma once

#include "base/bytes.h"

#include <cstdint>

namespace larder {

// The stack size of every thread that starts after set_up_process(). main()'s stack follows ulimit -s.
inline constexpr uint64_t thread_stack_bytes = 2 * MiB;

// The number of threads of this process, without main().
uint64_t threads_running();

// Starts `threads` threads that exist at the same time, and joins them. Throws no_thread() (out_of_memory.h) if one
// cannot start. Without this check OpenMP would end the process.
void check_threads_can_start(uint32_t threads);

} // namespace larder

// process.h — set-up of the process, for the beginning of main().
#pragma once

namespace larder {

// Reduces and fixes the process's use of memory, addresses and processors:
//   - Threads get stacks of thread_stack_bytes (threads.h), whatever ulimit -s is. The limit of main()'s stack is
//     raised if it is too small.
//   - All threads share one heap, and large allocations get mappings of their own. Some memory is reserved for
//     reporting that memory ran out.
//   - Children leave a status when they end, also if the parent of this process ignored SIGCHLD.
//   - A write beyond the limit of file sizes (ulimit -f) is an error instead of a signal.
//   - Memory is interleaved over the NUMA nodes if the process may run on several (numa.h).
//   - OpenMP threads spin only briefly at barriers before they sleep. Their library reads this setting before main()
//     runs, so this function executes the program again with it and with the arguments `argv`, unless GOMP_SPINCOUNT or
//     OMP_WAIT_POLICY is set. It does not if `argv` is null.
// Call it first in main(), before any thread starts. Throws Error(io) if the limit of the main stack is too small and
// cannot be raised.
void set_up_process(char *const *argv);

} // namespace larder

// process.h — the set-up of the process that a main() does first.
#pragma once

namespace larder {

// Makes the process's use of memory, addresses and processors small and known:
//   - stacks of thread_stack_bytes (threads.h), whatever ulimit -s says, and a main stack that may grow far enough;
//   - one heap for all threads, large blocks in mappings of their own, memory set aside to report that it ran out;
//   - memory interleaved over the NUMA nodes, where the process may run on several (numa.h);
//   - OpenMP threads that wait for each other briefly before they sleep. Their library reads the setting before main()
//     runs, so this function starts the program again with it, with the arguments `argv`, unless GOMP_SPINCOUNT or
//     OMP_WAIT_POLICY is set. With a null `argv` it does not.
// Call it first in main(), before any thread starts. Throws Error(io) if the main stack may not grow far enough.
void set_up_process(char *const *argv);

} // namespace larder

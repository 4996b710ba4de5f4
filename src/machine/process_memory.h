// process_memory.h — the memory of this process as the kernel counts it.
//
// Units: bytes. Threads: any. `root` is prepended to /proc, for tests. A figure that the kernel does not report is 0.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace larder {

struct ProcessMemory {
    uint64_t rss_bytes = 0;
    uint64_t peak_rss_bytes = 0;
    uint64_t anonymous_bytes = 0; // part of rss_bytes, see anonymous_bytes() below
    uint64_t vm_swap_bytes = 0;
    uint64_t locked_bytes = 0;  // locked addresses, touched or not
    uint64_t read_bytes = 0;    // read from storage by the process (/proc/self/io)
    uint64_t written_bytes = 0; // written to storage
};
ProcessMemory process_memory(const std::string &root = "");

// Anonymous and shared memory in RAM, which the kernel cannot reclaim without swap. Pages of mapped files are page
// cache and not included. Kernels before 4.5 do not report the difference; then all memory of the process in RAM is
// returned.
uint64_t anonymous_bytes(const std::string &root = "");

// The same, with the most memory that each counted child has held alone. Pages that a child still shares with this
// process are in the figure of this process. Kernels before 4.14 do not report what a child holds alone; then it counts
// as 0.
uint64_t held_bytes(const std::string &root = "");

// A child process that the plan includes. Without this, probe_memory() takes its memory for that of another process and
// subtracts it from the usable memory. Counts until the object is destroyed; destroy it before the child is waited for.
class CountedChild {
  public:
    explicit CountedChild(pid_t pid);
    ~CountedChild();
    CountedChild(const CountedChild &) = delete;
    CountedChild &operator=(const CountedChild &) = delete;

  private:
    pid_t pid_;
};

} // namespace larder

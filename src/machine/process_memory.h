// process_memory.h — what the kernel counts as the memory of this process.
//
// Units: bytes. Threads: any. `root` stands before /proc, for tests. What the kernel does not tell is 0.
#pragma once

#include <cstdint>
#include <string>

namespace larder {

struct ProcessMemory {
    uint64_t rss_bytes = 0;
    uint64_t peak_rss_bytes = 0;
    uint64_t anonymous_bytes = 0; // of rss_bytes, as anonymous_bytes() below
    uint64_t vm_swap_bytes = 0;
    uint64_t locked_bytes = 0;  // addresses that are locked, whether touched or not
    uint64_t read_bytes = 0;    // read from storage by the process (/proc/self/io)
    uint64_t written_bytes = 0; // written to storage
};
ProcessMemory process_memory(const std::string &root = "");

// Anonymous and shared memory in RAM: what the kernel cannot take back without swap. Pages of files are page cache.
// Kernels before 4.5 do not tell the two apart; then it is all that is in RAM.
uint64_t anonymous_bytes(const std::string &root = "");

} // namespace larder

// probe.h — what the disk and the memory of this machine give, measured the way the engine uses them.
//
// Reads are whole windows of `request_bytes` through the engine's own Reader, `depth` under way at once, at random
// places or one after the other. A sample never reads a window twice, and a sample begins where the one before it of
// the same size ended, so that no cache between larder and the disk answers before all of the files were read once.
//
// What comes from the page cache is never taken for the disk: where the file system refuses direct I/O the files' pages
// are dropped before each sample, and those that stay are counted.
//
// Threads: blocking; one measurement at a time. Errors: Error(io) for a read that failed or files that became shorter,
// Error(usage) for reads that do not fit into the files. Units: bytes, bytes per second, microseconds.
#pragma once

#include "io/io.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace larder {

struct DiskSample {
    uint64_t request_bytes = 0; // as asked for, widened to read_alignment
    uint32_t depth = 0;
    bool random = false;
    uint64_t n_request = 0;
    uint64_t bytes_read = 0;
    double bytes_per_second = 0;
    double latency_us_median = 0; // from the submission of a request to its result
    double latency_us_p99 = 0;
    // Of what was read, in the page cache before the sample. Direct reads do not use them. Absent where the kernel does
    // not tell: it hides them from those who may not write to the file.
    std::optional<uint64_t> cached_bytes;
};

struct DiskProbe {
    std::vector<std::string> paths;
    std::vector<uint64_t> request_bytes; // each is measured at each depth
    std::vector<uint32_t> depths;
    bool sequential = true; // besides random
    uint64_t bytes_per_sample = 256ULL << 20;
    double seconds_per_sample = 1.0; // whichever ends first
    ReaderOptions reader;            // its depth is raised to the largest of `depths`
    uint64_t seed = 1;
};

struct DiskReport {
    ReaderInfo reader; // with a notice too where direct reads went through the page cache all the same
    std::vector<DiskSample> samples;
    // The sample at the depth with the highest rate; null if there is none of that kind.
    [[nodiscard]] const DiskSample *best(uint64_t request_bytes, bool random) const;
};
DiskReport probe_disk(const DiskProbe &wanted);

// Lets go of what the page cache holds of these files, as far as nobody has it mapped or has yet to write it.
void drop_page_cache(const std::vector<std::string> &paths);

struct MemorySample {
    uint32_t threads = 0;
    double bytes_per_second = 0; // summed over the threads
};
// Reads of `bytes` of anonymous memory, shared out among 1, 2, 4, … and `threads_max` threads, `seconds_per_sample`
// each. `bytes` should be far more than the caches hold. Throws Error(io) if there is no such memory.
std::vector<MemorySample> probe_memory(uint32_t threads_max, uint64_t bytes, double seconds_per_sample);

} // namespace larder

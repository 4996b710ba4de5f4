// probe.h — what the disk and the memory of this machine give, measured the way the engine uses them.
//
// Reads are whole windows of `request_bytes` through the engine's own Reader with direct I/O, `depth` under way at
// once, at random aligned places or one after the other, and never the same place twice in a measurement if the file
// allows. Where the file system refuses direct I/O the result says so, and pages the measurement would find in the page
// cache are dropped first; if some stay, the result counts them.
//
// Threads: blocking; one measurement at a time. Errors: Error(io). Units: bytes, bytes per second, microseconds.
#pragma once

#include "io/io.h"

#include <cstdint>
#include <string>
#include <vector>

namespace larder {

struct DiskSample {
    uint64_t request_bytes = 0;
    uint32_t depth = 0;
    bool random = false;
    uint64_t bytes_read = 0;
    double bytes_per_second = 0;
    double latency_us_median = 0;
    double latency_us_p99 = 0;
    uint64_t cached_bytes = 0; // of what was read, in the page cache before the measurement (0 with direct I/O)
};

struct DiskProbe {
    std::vector<std::string> paths;
    std::vector<uint64_t> request_bytes; // each is measured at each depth
    std::vector<uint32_t> depths;
    bool sequential = true; // besides random
    uint64_t bytes_per_sample = 256ULL << 20;
    double seconds_per_sample = 1.0; // whichever ends first
    ReaderOptions reader;
    uint64_t seed = 1;
};

struct DiskReport {
    ReaderInfo reader;
    std::vector<DiskSample> samples;
    // The rate at the best depth of random reads of the given sizes, their mean weighted by request_bytes.
    [[nodiscard]] double random_bytes_per_second() const;
};
DiskReport probe_disk(const DiskProbe &wanted);

struct MemorySample {
    uint32_t threads = 0;
    double bytes_per_second = 0; // summed over the threads, reading memory far bigger than the caches
};
// 1, 2, 4, … and `threads_max` threads.
std::vector<MemorySample> probe_memory(uint32_t threads_max, uint64_t bytes_per_thread);

} // namespace larder

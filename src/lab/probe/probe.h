// probe.h — measures the rates of the disk and the memory, with the reads that the engine makes.
//
// A read is one request of `request_bytes` to the engine's own Reader. `depth` reads are in flight at once, in random
// or in sequential order. A sample reads no place twice, and begins where the sample before it of the same size and
// order ended. So no cache between larder and the disk holds what is read until all of the files were read once.
//
// Bytes from the page cache are not counted as the disk's: where reads do not bypass it, the files' pages are dropped
// before each sample, and those that stay are reported. ReaderInfo::in_memory tells that the files have no disk.
//
// Threads: every function blocks; one measurement at a time.
// Errors: Error(io) for a read that failed or a file that became shorter, Error(usage) for reads that do not fit into
// the files.
// Units: bytes, bytes per second, microseconds.
#pragma once

#include "io/io.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace larder {

struct DiskSample {
    uint64_t request_bytes = 0; // as asked for, rounded up to direct_io_alignment
    uint32_t depth = 0;
    bool random = false;
    uint64_t n_request = 0;
    uint64_t bytes_read = 0;
    double bytes_per_second = 0;
    double latency_us_median = 0; // from the submission of a request to its result
    double latency_us_p99 = 0;
    // Those of bytes_read that were in the page cache before the sample. Reads that bypass it do not use them. None
    // where the kernel does not tell: it hides them from those who may not write to the file.
    std::optional<uint64_t> cached_bytes;
};

struct DiskProbe {
    std::vector<std::string> paths;
    std::vector<uint64_t> request_bytes; // each is measured at each depth
    std::vector<uint32_t> depths;
    bool sequential = true; // besides random
    uint64_t bytes_per_sample = 256ULL << 20;
    double seconds_per_sample = 1.0; // whichever ends first
    ReaderOptions reader;            // `depths` replace its depth and requests_max
    uint64_t seed = 1;
};

struct DiskReport {
    ReaderInfo reader;
    std::vector<DiskSample> samples;
    // The sample at the depth with the highest rate; null if there is none of that kind.
    [[nodiscard]] const DiskSample *best(uint64_t request_bytes, bool random) const;
};
DiskReport probe_disk(const DiskProbe &wanted);

// Drops the pages of these files from the page cache, unless they are mapped or cannot be written back.
void drop_page_cache(const std::vector<std::string> &paths);

struct MemorySample {
    uint32_t threads = 0;
    double bytes_per_second = 0; // summed over the threads
};
// Reads `bytes` of anonymous memory with 1, 2, 4, … and `threads_max` threads, each its share, for `seconds_per_sample`
// each time. `bytes` should be far more than the processor's caches hold. Throws Error(io) if there is no such memory.
std::vector<MemorySample> probe_memory(uint32_t threads_max, uint64_t bytes, double seconds_per_sample);

} // namespace larder

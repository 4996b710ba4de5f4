// probe.h — measures the rates of the disk and the memory with the same kind of reads as larder itself.
//
// A read is one request of `request_bytes` to larder's Reader. `depth` reads are in flight at once, in random or in
// sequential order. A sample reads no position twice, and begins where the previous sample of the same size and order
// ended. So no cache between larder and the disk has the data, until all of the files have been read once.
//
// Reads from the page cache must not count as reads from the disk: if reads do not bypass the page cache, the files'
// pages are dropped before each sample, and pages that stay cached are reported. ReaderInfo::in_memory is true if the
// files are not on a disk.
//
// Threads: every function blocks; one measurement at a time.
// Errors: Error(io) for a failed read or a file that became shorter, Error(usage) for reads that do not fit into the
// files.
// Units: bytes, bytes per second, microseconds.
#pragma once

#include "io/io.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace larder {

struct DiskSample {
    uint64_t request_bytes = 0; // as requested, rounded up to direct_io_alignment
    uint32_t depth = 0;
    bool random = false;
    uint64_t n_request = 0;
    uint64_t bytes_read = 0;
    double bytes_per_second = 0;
    double latency_us_median = 0; // from the submission of a request to its result
    double latency_us_p99 = 0;
    // The part of bytes_read that was in the page cache before the sample; reads that bypass the cache do not use it.
    // None if the kernel does not report it: it requires write permission for the file.
    std::optional<uint64_t> cached_bytes;
};

struct DiskProbe {
    std::vector<std::string> paths;
    std::vector<uint64_t> request_bytes; // each is measured at each depth
    std::vector<uint32_t> depths;
    bool sequential = true; // besides random
    uint64_t bytes_per_sample = 256ULL << 20;
    double seconds_per_sample = 1.0; // a sample ends at the first of the two limits
    ReaderOptions reader;            // depth and requests_max are set from `depths`
    uint64_t seed = 1;
};

struct DiskReport {
    ReaderInfo reader;
    std::vector<DiskSample> samples;
    // The sample with the highest rate over all depths; null if there is none of this kind.
    [[nodiscard]] const DiskSample *best(uint64_t request_bytes, bool random) const;
};
DiskReport probe_disk(const DiskProbe &wanted);

// Drops the pages of these files from the page cache, except mapped pages and pages that cannot be written back.
void drop_page_cache(const std::vector<std::string> &paths);

struct MemorySample {
    uint32_t threads = 0;
    double bytes_per_second = 0; // summed over the threads
};
// Reads `bytes` of anonymous memory with 1, 2, 4, … and `threads_max` threads, each thread its share, for
// `seconds_per_sample` each time. `bytes` should be much larger than the processor's caches. Throws Error(io) if the
// memory is not available.
std::vector<MemorySample> probe_memory(uint32_t threads_max, uint64_t bytes, double seconds_per_sample);

} // namespace larder

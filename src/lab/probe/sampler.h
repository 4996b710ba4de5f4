// sampler.h — one sample of reads through a Reader (private to probe).
#pragma once

#include "io/io.h"
#include "lab/probe/probe.h"
#include "lab/probe/windows.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace larder {

struct SampleOptions {
    uint64_t request_bytes = 0;
    uint32_t depth = 1; // at most the reader's requests_max
    double seconds = 1.0;
};

// Reads `places` in order, `depth` at a time, until all are read or the time is over. Reads in flight at that moment
// are completed and counted: DiskSample::n_request is the number of places read. Throws Error(io) with the file (from
// `paths`) and the offset if a read fails. No read is in flight when this returns or throws.
DiskSample take_sample(Reader &reader, const std::vector<std::string> &paths, std::span<const WindowPlace> places,
                       const SampleOptions &options);

} // namespace larder

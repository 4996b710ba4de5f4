// sampler.h — one sample of reads through a Reader, whatever kind that is (private to probe).
#pragma once

#include "io/io.h"
#include "lab/probe/probe.h"
#include "lab/probe/windows.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace larder {

struct SampleWish {
    uint64_t request_bytes = 0;
    uint32_t depth = 1;
    double seconds = 1.0;
};

// Reads `places` in their order, `wish.depth` under way at once, until all are read or the time is over; reads under
// way then are let finish and count. n_request of the result says how many places were read. Throws Error(io) naming
// the file of `paths` and the place when a read fails; nothing is under way any more then.
DiskSample take_sample(Reader &reader, const std::vector<std::string> &paths, std::span<const WindowPlace> places,
                       const SampleWish &wish);

} // namespace larder

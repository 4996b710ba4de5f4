// tune.h — looks for the settings under which a job takes the least time, by trying them.
//
// One setting after the other is varied, the best value of those before kept: threads, ubatch, arena, read depth. That
// is as many trials as there are values, not as there are combinations. Timings are noisy: a value that looks better
// than the best so far by `gain_min` is measured once more, after the best once more, and wins if it is faster in sum.
//
// Seconds, tokens, bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace larder {

struct Tuning {
    uint32_t threads = 0;
    uint32_t ubatch_tokens = 0;
    uint64_t arena_bytes = 0; // 0: all that the budget leaves
    uint32_t io_depth = 0;
    bool operator==(const Tuning &) const = default;
};

// The values to try. The first of each is where the search begins; none is empty.
struct TuneSpace {
    std::vector<uint32_t> threads;
    std::vector<uint32_t> ubatch_tokens;
    std::vector<uint64_t> arena_bytes;
    std::vector<uint32_t> io_depth;
};

struct Trial {
    Tuning tuning;
    std::optional<double> seconds; // none: it could not be run
};

struct TuneResult {
    Trial best;
    std::vector<Trial> trials; // as measured, the repeated ones too
};

// How long the job takes; nothing if it cannot be run so.
using MeasureJob = std::function<std::optional<double>(const Tuning &)>;

// `best` has no seconds only if nothing could be run. Stops early, with what it has, where `stopped` says so.
TuneResult search_tuning(const TuneSpace &space, double gain_min, const MeasureJob &measure,
                         const std::function<bool()> &stopped);

} // namespace larder

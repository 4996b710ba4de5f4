// tune.h — searches for the settings with which a job takes the least time, by running it.
//
// The settings are varied one after the other, and the best values of earlier ones are kept: threads, ubatch, arena,
// read depth. So the number of trials is the number of values, not of combinations. Timings are noisy: if a value is
// faster than the best so far by the factor 1 + `gain_min`, the best and the value are measured once more, in this
// order. The value replaces the best if the mean of its two times is lower by the same factor.
//
// Units: seconds, tokens, bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace larder {

struct Tuning {
    uint32_t threads = 0;
    uint32_t ubatch_tokens = 0;
    uint64_t arena_bytes = 0; // 0: all that the budget allows
    uint32_t io_depth = 0;
    bool operator==(const Tuning &) const = default;
};

// The values to try. The search begins with the first of each. No list may be empty.
struct TuneSpace {
    std::vector<uint32_t> threads;
    std::vector<uint32_t> ubatch_tokens;
    std::vector<uint64_t> arena_bytes;
    std::vector<uint32_t> io_depth;
};

struct Trial {
    Tuning tuning;
    std::optional<double> seconds; // none: the job could not be run
};

struct TuneResult {
    Trial best;
    std::vector<Trial> trials; // in the order of measurement, including repeated ones
};

// Returns the duration of the job in seconds; none if it cannot be run with these settings.
using MeasureJob = std::function<std::optional<double>(const Tuning &)>;

// `best` has no seconds only if no trial could be run. Ends early, with the results so far, when `stopped` returns
// true.
TuneResult search_tuning(const TuneSpace &space, double gain_min, const MeasureJob &measure,
                         const std::function<bool()> &stopped);

} // namespace larder

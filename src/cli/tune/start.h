// start.h — the starting point of `larder tune`'s search: the plan that `larder run` would make.
//
// The plan is made in a separate process, like the trials. Planning leaves memory allocated, which would be missing in
// the trials where the limit of a cgroup is the budget.
#pragma once

#include "session/open_model.h"

#include <cstdint>
#include <optional>

namespace larder {

// The settings that `larder run` would use with these options.
struct StartingPoint {
    uint32_t ctx_tokens = 0;
    uint32_t threads = 0;
    uint32_t ubatch_tokens = 0;
    uint64_t arena_bytes = 0;
    uint64_t floor_bytes = 0;
};

// Empty if a signal ended the worker. Throws the error that the worker reported.
std::optional<StartingPoint> starting_point(const OpenOptions &options);

} // namespace larder

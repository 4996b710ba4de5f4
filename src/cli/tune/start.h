// start.h — where the search of `larder tune` begins: the plan that run would make.
//
// It is made in a process of its own, as the trials are: what planning leaves in a process would be missing in theirs
// where a cgroup's limit is the budget.
#pragma once

#include "session/open_model.h"

#include <cstdint>
#include <optional>

namespace larder {

// What run would take with these options.
struct StartingPoint {
    uint32_t ctx_tokens = 0;
    uint32_t threads = 0;
    uint32_t ubatch_tokens = 0;
    uint64_t arena_bytes = 0;
    uint64_t floor_bytes = 0;
};

// Nothing if somebody ended the process. Throws what it told.
std::optional<StartingPoint> starting_point(const OpenOptions &options);

} // namespace larder

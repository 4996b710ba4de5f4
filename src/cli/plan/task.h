// task.h — makes a plan in a separate process (worker/task.h).
#pragma once

#include "cli/worker/task.h"

#include <optional>

namespace larder {

// The plan that open_model() would make with these options: ctx_tokens, threads, ubatch_tokens, kernels, arena_bytes
// and floor_bytes. Empty if a signal ended the worker. Throws the error that the worker reported.
std::optional<Json> planned_in_worker(const OpenOptions &options);

} // namespace larder

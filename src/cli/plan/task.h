// task.h — a plan made in a process of its own (worker/task.h).
#pragma once

#include "cli/worker/task.h"

#include <optional>

namespace larder {

// What open_model() would decide with these options: ctx_tokens, threads, ubatch_tokens, kernels, arena_bytes and
// floor_bytes. Nothing if somebody ended the process. Throws what it told.
std::optional<Json> planned_in_worker(const OpenOptions &options);

} // namespace larder

// address_needs.h — what limits of addresses (plan/address_space.h) leave for a model's budget (private to engine).
#pragma once

#include "engine/engine.h"

namespace larder {

// The threads that a session starts: one fewer than compute, and some that watch and read. `options` may be resolved or
// not.
uint32_t threads_to_start(const EngineOptions &options);

// `machine`, or what RLIMIT_DATA and RLIMIT_AS leave if that is less: without the stacks, the arrays that llama.cpp
// hardly touches, and the addresses of all experts. Where there are such limits it builds the model and a context
// without memory to see those arrays, some tens of milliseconds; otherwise it does nothing. Throws what measure()
// throws, and Error(budget) that names the limits if they do not even allow that.
Machine within_address_limits(const Machine &machine, const ModelLayout &layout, const EngineOptions &resolved);

} // namespace larder

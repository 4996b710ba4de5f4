// address_needs.h — what limits of addresses (machine/address_limits.h) leave for a model's budget (private to engine).
#pragma once

#include "engine/engine.h"
#include "machine/address_limits.h"

namespace larder {

// The threads that a session starts: one fewer than compute, and some that watch and read. `options` may be resolved or
// not.
uint32_t threads_to_start(const EngineOptions &options);

// What the process will map beside what is planned, and not touch: stacks, the arrays that llama.cpp hardly uses, and
// (which nobody may write) the addresses of all experts. Builds the model and a context without memory to see those
// arrays, some tens of milliseconds. Throws what measure() throws, and Error(budget) that names the limits of addresses
// if they do not even allow that.
IdleAddresses addresses_beside_the_plan(const ModelLayout &layout, const EngineOptions &resolved);

// `machine`, or what RLIMIT_DATA and RLIMIT_AS leave beside those addresses if that is less. Does nothing where there
// are no such limits.
Machine within_address_limits(const Machine &machine, const ModelLayout &layout, const EngineOptions &resolved);

} // namespace larder

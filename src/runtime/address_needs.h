// address_needs.h — addresses that the process will map and that are no memory the plan counts (private to runtime).
//
// Units: bytes.
#pragma once

#include "io/io.h"
#include "machine/address_limits.h"

#include <cstdint>

namespace larder {

// The threads that a process starts which computes on `threads`: one fewer of them, and some that watch and read.
uint32_t threads_to_start(uint32_t threads, const ReaderOptions &reader);

// `with_context` is what was mapped and not touched with a model's context in the process. What comes later: stacks,
// slack of allocators and (which nobody may write) the addresses of all experts.
IdleAddresses with_what_is_to_come(const IdleAddresses &with_context, uint32_t threads, const ReaderOptions &reader,
                                   uint64_t routed_bytes);

} // namespace larder

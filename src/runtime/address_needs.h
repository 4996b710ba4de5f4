// address_needs.h — addresses that the process maps but that the plan does not count as memory (private to runtime).
//
// Units: bytes.
#pragma once

#include "io/io.h"
#include "machine/address_limits.h"

#include <cstdint>

namespace larder {

// Number of threads that a process starts to compute on `threads`: one less than `threads`, because the calling thread
// computes too, plus the threads that watch, prefault, take signals and read.
uint32_t threads_to_start(uint32_t threads, const ReaderOptions &reader);

// `with_context` is what was mapped but not touched while the process held a model's context. The result adds what is
// mapped later: stacks, slack of the allocators, and the addresses of all routed experts, which are not writable.
IdleAddresses with_what_is_to_come(const IdleAddresses &with_context, uint32_t threads, const ReaderOptions &reader,
                                   uint64_t routed_bytes);

} // namespace larder

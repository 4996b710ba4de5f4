// memory_lock.h — keeps the process's memory out of swap (--mlock).
//
// Units: bytes. Threads: any.
#pragma once

#include <cstdint>
#include <optional>

namespace larder {

// RLIMIT_MEMLOCK; none if the process may lock without limit (CAP_IPC_LOCK).
std::optional<uint64_t> lock_limit();

// Throws Error(budget) if the limit is below the memory that the process may lock: `held_bytes` that it may hold, plus
// `untouched_bytes` of other writable mappings. The kernel counts addresses, touched or not.
void check_may_lock(uint64_t limit_bytes, uint64_t held_bytes, uint64_t untouched_bytes);

// Locks all writable mappings without a file (weights, arena, caches, heap, stacks), and every later mapping of this
// process: work buffers, stacks of new threads, growth of the heap, but also files and addresses without access. Call
// it after the models are loaded. A page is locked when it is first touched, so no unplanned page comes into RAM. A
// later mapping that exceeds RLIMIT_MEMLOCK fails, as with RLIMIT_DATA. Throws Error(io).
void lock_memory();

} // namespace larder

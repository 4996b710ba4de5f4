// memory_lock.h — keeps the process's memory out of swap (--mlock).
//
// Units: bytes. Threads: any.
#pragma once

#include <cstdint>
#include <optional>

namespace larder {

// RLIMIT_MEMLOCK; none for a process that may lock without limit (CAP_IPC_LOCK).
std::optional<uint64_t> lock_limit();

// Throws Error(budget) if the limit is below what the process may come to lock: what it may hold, and what else it will
// have mapped for writing, since the kernel counts addresses, touched or not.
void check_may_lock(uint64_t limit_bytes, uint64_t held_bytes, uint64_t untouched_bytes);

// Locks what is mapped for writing and belongs to no file (weights, arena, caches, heap, stacks), and everything that
// this process maps from now on: work memory, stacks of later threads, the heap as it grows, and files and addresses
// without access too. So call it when models are loaded. A page is locked when it is first touched; nothing becomes
// resident that was not planned. Under a limit, a later mapping beyond it fails as it does under RLIMIT_DATA.
// Throws Error(io).
void lock_memory();

} // namespace larder

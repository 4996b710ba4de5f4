// memory_lock.h — keeps the process's memory out of swap (private to engine).
#pragma once

#include <cstdint>
#include <optional>

namespace larder {

// RLIMIT_MEMLOCK; none for a process whose capability lifts it.
std::optional<uint64_t> lock_limit();

// Throws Error(budget) with the remedy if the limit is below what is planned and what else the process will have mapped
// for writing: the kernel counts addresses, touched or not.
void check_may_lock(uint64_t limit_bytes, uint64_t planned_bytes, uint64_t untouched_bytes);

// Locks what is mapped for writing and belongs to no file: weights, arena, caches, heap and stacks. A page is locked
// when it is first touched, so that nothing is made resident that was not planned to be. What is mapped later is not
// locked. Throws Error(io).
void lock_memory();

} // namespace larder

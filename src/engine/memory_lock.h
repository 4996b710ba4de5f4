// memory_lock.h — keeps the process's memory out of swap (private to engine).
#pragma once

#include <cstdint>

namespace larder {

// Throws Error(budget) with the remedy if this process may not lock `bytes`: the limit is below, and it has not the
// capability that lifts it.
void check_may_lock(uint64_t bytes);

// Locks what is mapped for writing and belongs to no file: weights, arena, caches, heap and stacks. A page is locked
// when it is first touched, so that nothing is made resident that was not planned to be. What is mapped later is not
// locked. Throws Error(io).
void lock_memory();

} // namespace larder

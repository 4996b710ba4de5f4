// own_stack.h — runs deeply recursive work on a thread with a stack of the required size (private to text).
//
// llama.cpp's regular expressions recurse once per matched character. The caller's stack, for example a server
// thread's, is too small for that. The pages of the mapped stack take no memory until the recursion touches them.
#pragma once

#include "base/bytes.h"

#include <cstdint>
#include <functional>

namespace larder {

// Stack that a call may take on the caller's thread, including all frames of llama.cpp. Smaller than the smallest usual
// stack of a thread.
inline constexpr uint64_t small_stack_bytes = 192 * KiB;

// Runs `work` on a new thread with a stack of `stack_bytes`, waits for its end, and rethrows its exception. Throws
// Error(io) if there are no addresses for the stack or no thread can be started.
void run_on_own_stack(uint64_t stack_bytes, const std::function<void()> &work);

// As run_on_own_stack(). Returns how much of the stack `work` touched, in bytes, rounded to pages.
uint64_t stack_touched_by(uint64_t stack_bytes, const std::function<void()> &work);

} // namespace larder

// own_stack.h — work that recurses deeply, on a thread whose stack is mapped for it (private to text).
//
// llama.cpp's regular expressions recurse once for each character they match. No caller's stack is made for that, least
// of all a server thread's. The pages of such a stack are addresses only, until the recursion touches them.
#pragma once

#include "base/bytes.h"

#include <cstdint>
#include <functional>

namespace larder {

// What a call on the caller's own stack may take, with all frames of llama.cpp below it: less than the smallest stack
// that threads are given.
inline constexpr uint64_t small_stack_bytes = 192 * KiB;

// Runs `work` on a new thread with a stack of `stack_bytes` and waits for its end. What `work` throws is thrown here.
// Throws Error(io) if there are no addresses or no thread for it.
void run_on_own_stack(uint64_t stack_bytes, const std::function<void()> &work);

// The same. Returns how much of the stack `work` touched, in bytes, to a page.
uint64_t stack_touched_by(uint64_t stack_bytes, const std::function<void()> &work);

} // namespace larder

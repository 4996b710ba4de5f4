// allocations.h — counts calls of operator new in this test program.
#pragma once

#include <atomic>
#include <cstdint>

namespace larder::test {

extern std::atomic<uint64_t> allocations; // on all threads

// Sanitizers replace operator new, so the count stays 0, and a test that it does not grow proves nothing.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool counts_allocations = false;
#else
inline constexpr bool counts_allocations = true;
#endif

} // namespace larder::test

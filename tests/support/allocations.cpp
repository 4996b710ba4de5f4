#include "support/allocations.h"

#include <cstdlib>
#include <new>

namespace larder::test {

std::atomic<uint64_t> allocations{0};

} // namespace larder::test

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *operator new(size_t bytes) {
    ++larder::test::allocations;
    if (void *memory = std::malloc(bytes)) {
        return memory;
    }
    throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
#endif

#include "text/counted_heap.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> live{0};
std::atomic<int64_t> peak{0};

} // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

constexpr int64_t header_bytes = 16; // of malloc

void *counted(size_t bytes) {
    void *block = std::malloc(bytes);
    if (block == nullptr) {
        throw std::bad_alloc();
    }
    const int64_t now = live += static_cast<int64_t>(malloc_usable_size(block)) + header_bytes;
    for (int64_t most = peak; now > most && !peak.compare_exchange_weak(most, now);) {
    }
    return block;
}

void free_counted(void *block) noexcept {
    if (block != nullptr) {
        live -= static_cast<int64_t>(malloc_usable_size(block)) + header_bytes;
    }
    std::free(block);
}

} // namespace

void *operator new(size_t bytes) { return counted(bytes); }
void *operator new[](size_t bytes) { return counted(bytes); }
void operator delete(void *block) noexcept { free_counted(block); }
void operator delete[](void *block) noexcept { free_counted(block); }
void operator delete(void *block, size_t) noexcept { free_counted(block); }
void operator delete[](void *block, size_t) noexcept { free_counted(block); }

#endif

namespace larder::test {

CountedHeap::CountedHeap() : before_(live) { peak = before_; }
uint64_t CountedHeap::peak_bytes() const { return static_cast<uint64_t>(peak - before_); }

} // namespace larder::test

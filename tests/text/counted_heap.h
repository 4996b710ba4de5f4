// counted_heap.h — measures the memory that operator new has allocated.
#pragma once

#include <cstdint>

namespace larder::test {

// Counts from its construction on. Only one may exist at a time. Sanitizers replace operator new, so the peak stays 0.
class CountedHeap {
  public:
    CountedHeap();
    [[nodiscard]] uint64_t peak_bytes() const;

  private:
    int64_t before_;
};

} // namespace larder::test

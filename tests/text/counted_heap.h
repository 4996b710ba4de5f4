// counted_heap.h — how much memory operator new has given out, over a while.
#pragma once

#include <cstdint>

namespace larder::test {

// From its construction on. One at a time. With sanitizers, which have their own operator new, the peak stays 0.
class CountedHeap {
  public:
    CountedHeap();
    [[nodiscard]] uint64_t peak_bytes() const;

  private:
    int64_t before_;
};

} // namespace larder::test

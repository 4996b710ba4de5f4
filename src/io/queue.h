// queue.h — a first-in, first-out queue of fixed capacity (private to io). Only its constructor allocates.
#pragma once

#include "base/check.h"

#include <cstddef>
#include <vector>

namespace larder {

template <class T> class Queue {
  public:
    explicit Queue(size_t capacity) : items_(capacity) {}

    [[nodiscard]] bool empty() const { return size_ == 0; }
    [[nodiscard]] size_t size() const { return size_; }

    // Requires that the queue is not full.
    void push(const T &item) {
        LARDER_CHECK(size_ < items_.size());
        const size_t end = first_ + size_++;
        items_[end < items_.size() ? end : end - items_.size()] = item;
    }
    // Requires that the queue is not empty.
    T pop() {
        LARDER_CHECK(size_ > 0);
        const T item = items_[first_];
        first_ = first_ + 1 < items_.size() ? first_ + 1 : 0;
        size_--;
        return item;
    }

  private:
    std::vector<T> items_; // a ring buffer: `size_` items, beginning at `first_`
    size_t first_ = 0;
    size_t size_ = 0;
};

} // namespace larder

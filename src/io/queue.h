// queue.h — first in, first out, without allocating once it has grown to its working size.
#pragma once

#include <cstddef>
#include <vector>

namespace larder {

// Items lie in items_[head_, size). Space before head_ is taken back when the queue runs empty, or when it is at least
// half of the whole: so each item is moved once on average.
template <class T> class Queue {
  public:
    [[nodiscard]] bool empty() const { return head_ == items_.size(); }
    [[nodiscard]] size_t size() const { return items_.size() - head_; }

    // Makes room so that pushes up to this size do not allocate.
    void reserve(size_t size) { items_.reserve(2 * size); }

    void push(const T &item) {
        if (items_.size() == items_.capacity() && head_ >= size()) {
            items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
            head_ = 0;
        }
        items_.push_back(item);
    }
    // The queue is not empty.
    T pop() {
        const T item = items_[head_++];
        if (empty()) {
            items_.clear();
            head_ = 0;
        }
        return item;
    }

  private:
    std::vector<T> items_;
    size_t head_ = 0;
};

} // namespace larder

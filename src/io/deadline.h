// deadline.h — the end of a wait that begins now and takes at most so long (private to io).
#pragma once

#include <algorithm>
#include <chrono>
#include <climits>

namespace larder {

class Deadline {
  public:
    using Clock = std::chrono::steady_clock;

    // Longer than a year is for ever: then the end cannot overflow.
    explicit Deadline(std::chrono::milliseconds at_most)
        : end_(at_most > std::chrono::hours(24 * 365) ? Clock::time_point::max() : Clock::now() + at_most) {}

    [[nodiscard]] Clock::time_point end() const { return end_; }
    // What is left of it in whole milliseconds for poll(2), rounded up so that the last one is not spent spinning.
    [[nodiscard]] int ms_left() const {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
        return static_cast<int>(std::clamp<decltype(left)>(left, 0, INT_MAX));
    }

  private:
    Clock::time_point end_;
};

} // namespace larder

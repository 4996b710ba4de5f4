// deadline.h — the end of a wait that begins now (private to io).
#pragma once

#include <algorithm>
#include <chrono>
#include <climits>

namespace larder {

class Deadline {
  public:
    using Clock = std::chrono::steady_clock;

    // More than a year means no deadline, so the end cannot overflow.
    explicit Deadline(std::chrono::milliseconds at_most)
        : end_(at_most > std::chrono::hours(24 * 365) ? Clock::time_point::max() : Clock::now() + at_most) {}

    [[nodiscard]] Clock::time_point end() const { return end_; }
    // The remaining whole milliseconds, for poll(2). Rounded up, so that the last fraction is not spent spinning.
    [[nodiscard]] int ms_left() const {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
        return static_cast<int>(std::clamp<decltype(left)>(left, 0, INT_MAX));
    }

  private:
    Clock::time_point end_;
};

} // namespace larder

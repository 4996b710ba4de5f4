// hadamard.h — rows of +1 and −1 that are orthogonal to each other exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace larder::make_recite {

class Hadamard {
  public:
    // Whether there is a matrix of this order here: a power of two, or one times q + 1 for a prime q = 3 modulo 4
    // (12, 20, 24, 28, 1536, 2560, 2880, …).
    static bool has(uint32_t order);

    // The first `rows` rows of a matrix that has().
    Hadamard(uint32_t order, uint32_t rows);

    [[nodiscard]] uint32_t rows() const { return static_cast<uint32_t>(signs_.size() / order_); }
    [[nodiscard]] uint32_t order() const { return order_; }
    [[nodiscard]] const int8_t *row(uint32_t index) const { return signs_.data() + size_t{index} * order_; }

  private:
    uint32_t order_;
    std::vector<int8_t> signs_;
};

} // namespace larder::make_recite

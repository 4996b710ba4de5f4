// hadamard.h — exactly orthogonal rows of +1 and −1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace larder::make_recite {

class Hadamard {
  public:
    // Whether a matrix of this order can be made: a power of two, or a power of two times q + 1 for a prime q = 3
    // modulo 4 (12, 20, 24, 28, 1536, 2560, 2880, …).
    static bool has(uint32_t order);

    // The first `rows` rows of a matrix. Requires has(order).
    Hadamard(uint32_t order, uint32_t rows);

    [[nodiscard]] uint32_t rows() const { return static_cast<uint32_t>(signs_.size() / order_); }
    [[nodiscard]] uint32_t order() const { return order_; }
    [[nodiscard]] const int8_t *row(uint32_t index) const { return signs_.data() + size_t{index} * order_; }

  private:
    uint32_t order_;
    std::vector<int8_t> signs_;
};

} // namespace larder::make_recite

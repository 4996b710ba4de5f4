// windows.h — the positions that a measurement reads: all aligned windows of one size in some files, numbered (private
// to probe).
//
// Random order is a permutation that is computed, not stored. It contains each window once.
#pragma once

#include <cstdint>
#include <vector>

namespace larder {

struct WindowPlace {
    uint32_t file = 0;
    uint64_t offset = 0;
};

class Windows {
  public:
    // A window begins at each multiple of `window_bytes` in each file, and is completely inside the file.
    Windows(const std::vector<uint64_t> &file_bytes, uint64_t window_bytes, uint64_t seed);

    [[nodiscard]] uint64_t count() const { return count_; }
    // The i-th window in file order or in random order; i must be below count().
    [[nodiscard]] WindowPlace sequential(uint64_t i) const;
    [[nodiscard]] WindowPlace random(uint64_t i) const { return sequential(permuted(i)); }

  private:
    [[nodiscard]] uint64_t permuted(uint64_t i) const;

    std::vector<uint64_t> first_; // number of each file's first window; the last element is count()
    uint64_t window_bytes_;
    uint64_t count_ = 0;
    uint32_t half_bits_ = 1; // 2^(2 half_bits_) >= count_
    uint64_t seed_;
};

} // namespace larder

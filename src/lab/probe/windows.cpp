#include "lab/probe/windows.h"

#include "base/check.h"

#include <algorithm>
#include <iterator>

namespace larder {

namespace {

// The finaliser of SplitMix64: every bit of the result depends on every bit of the value.
uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

} // namespace

Windows::Windows(const std::vector<uint64_t> &file_bytes, uint64_t window_bytes, uint64_t seed)
    : window_bytes_(window_bytes), seed_(seed) {
    LARDER_CHECK(window_bytes > 0);
    for (const uint64_t bytes : file_bytes) {
        first_.push_back(count_);
        count_ += bytes / window_bytes;
    }
    first_.push_back(count_);
    while (half_bits_ < 32 && (uint64_t{1} << (2 * half_bits_)) < count_) {
        half_bits_++;
    }
}

WindowPlace Windows::sequential(uint64_t i) const {
    LARDER_CHECK(i < count_);
    const auto after = std::upper_bound(first_.begin(), first_.end(), i);
    const auto file = static_cast<size_t>(std::distance(first_.begin(), after)) - 1;
    return {static_cast<uint32_t>(file), (i - first_[file]) * window_bytes_};
}

// A Feistel network permutes the numbers with an even number of bits. Results outside the range are permuted again.
// This is a permutation of the range and takes at most four rounds on average.
uint64_t Windows::permuted(uint64_t i) const {
    LARDER_CHECK(i < count_);
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    do {
        uint64_t left = i >> half_bits_;
        uint64_t right = i & mask;
        for (uint64_t round = 0; round < 4; round++) {
            const uint64_t next = left ^ (mixed(right + (round << 40) + mixed(seed_)) & mask);
            left = right;
            right = next;
        }
        i = (left << half_bits_) | right;
    } while (i >= count_);
    return i;
}

} // namespace larder

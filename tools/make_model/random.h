// random.h — random numbers that are equal on every machine and with every standard library.
#pragma once

#include <cstdint>
#include <string_view>

namespace larder::make_model {

struct Distribution {
    float mean;
    float stddev;
};

// SplitMix64.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    // An independent stream for each name.
    Random(uint64_t seed, std::string_view name);

    uint64_t next() {
        state_ += 0x9e3779b97f4a7c15U;
        uint64_t x = state_;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
        return x ^ (x >> 31);
    }

    // A number below `end`; `end` must be less than 2^32.
    uint64_t below(uint64_t end) { return ((next() >> 32) * end) >> 32; }

    // Approximately normal: the sum of four uniform numbers. At most 3.47 standard deviations from the mean.
    float normal(Distribution distribution) {
        const uint64_t bits = next();
        const auto sum = static_cast<int32_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) +
                                              ((bits >> 48) & 0xffff));
        constexpr int32_t middle = 2 * 0xffff;
        constexpr float unit = 1.7320508F / 65536.0F; // the sum of four uniform numbers in [0, 1] has the variance 1/3
        return distribution.mean + distribution.stddev * unit * static_cast<float>(sum - middle);
    }

  private:
    uint64_t state_;
};

} // namespace larder::make_model

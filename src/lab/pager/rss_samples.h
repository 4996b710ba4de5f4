// rss_samples.h — samples of the process's RSS over time, in a bounded list (private to pager).
//
// Every evaluation is sampled until the list is full. Then every second sample is removed and only every second
// evaluation is sampled, and so on. So the samples stay evenly spaced over the whole run.
#pragma once

#include "lab/pager/pager.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace larder {

class RssSamples {
  public:
    static constexpr size_t n_sample_max = 256;

    // Whether the current evaluation is to be sampled. To be called once per evaluation.
    [[nodiscard]] bool due() { return n_asked_++ % stride_ == 0; }
    void add(const RssSample &sample);
    [[nodiscard]] const std::vector<RssSample> &samples() const { return samples_; }

  private:
    std::vector<RssSample> samples_;
    uint64_t n_asked_ = 0;
    uint64_t stride_ = 1; // a power of two
};

} // namespace larder

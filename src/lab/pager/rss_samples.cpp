#include "lab/pager/rss_samples.h"

namespace larder {

void RssSamples::add(const RssSample &sample) {
    if (samples_.size() == n_sample_max) {
        for (size_t i = 0; i < n_sample_max / 2; i++) {
            samples_[i] = samples_[2 * i];
        }
        samples_.resize(n_sample_max / 2);
        stride_ *= 2;
    }
    samples_.push_back(sample);
}

} // namespace larder

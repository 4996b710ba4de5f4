#include "lab/pager/rss_samples.h"

#include <unistd.h>

#include <fstream>

namespace larder {

uint64_t resident_bytes_now() {
    std::ifstream statm("/proc/self/statm");
    uint64_t all_pages = 0;
    uint64_t resident_pages = 0;
    return statm >> all_pages >> resident_pages ? resident_pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

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

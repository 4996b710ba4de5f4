// Measures memory: threads read their share of a large array repeatedly.
#include "base/bytes.h"
#include "base/error.h"
#include "lab/probe/probe.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <latch>
#include <numeric>
#include <span>
#include <system_error>
#include <thread>

namespace larder {

namespace {

using Clock = std::chrono::steady_clock;

class Array {
  public:
    explicit Array(uint64_t bytes) : bytes_(bytes) {
        data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data_ == MAP_FAILED) {
            throw Error::from_errno(errno, "cannot allocate memory to measure its speed", "free some memory");
        }
        std::memset(data_, 1, bytes); // untouched pages would all be the same page of zeros
    }
    ~Array() { ::munmap(data_, bytes_); }
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    [[nodiscard]] std::span<const uint64_t> words() const {
        return {static_cast<const uint64_t *>(data_), bytes_ / sizeof(uint64_t)};
    }

  private:
    void *data_;
    uint64_t bytes_;
};

// Independent sums, so that loads do not wait for each other.
uint64_t sum_of(std::span<const uint64_t> words) {
    constexpr size_t lanes = 32;
    std::array<uint64_t, lanes> sums{};
    for (size_t i = 0; i + lanes <= words.size(); i += lanes) {
        for (size_t lane = 0; lane < lanes; lane++) {
            sums[lane] += words[i + lane];
        }
    }
    uint64_t sum = 0;
    for (const uint64_t lane : sums) {
        sum += lane;
    }
    return sum;
}

MemorySample measure(std::span<const uint64_t> words, uint32_t n_thread, double seconds) {
    std::latch ready(n_thread);
    std::atomic<uint64_t> sink{0}; // uses the sums, otherwise the compiler would remove them
    std::vector<double> rates(n_thread);
    std::vector<std::thread> threads;
    const size_t share = words.size() / n_thread;
    const auto read_share = [&](uint32_t t) {
        ready.arrive_and_wait();
        const Clock::time_point begin = Clock::now();
        uint64_t passes = 0;
        double passed = 0;
        do {
            sink += sum_of(words.subspan(t * share, share));
            passes++;
            passed = std::chrono::duration<double>(Clock::now() - begin).count();
        } while (passed < seconds);
        rates[t] = static_cast<double>(passes * share * sizeof(uint64_t)) / passed;
    };
    int failure = 0;
    try {
        for (uint32_t t = 0; t < n_thread; t++) {
            threads.emplace_back(read_share, t);
        }
    } catch (const std::system_error &error) {
        failure = error.code().value();
        ready.count_down(n_thread - static_cast<uint32_t>(threads.size())); // counts down for the missing threads
    }
    std::ranges::for_each(threads, &std::thread::join);
    if (failure != 0) {
        throw Error::from_errno(failure, fmt::format("cannot start {} thread(s) to read memory", n_thread),
                                "take fewer (-t), or raise the limit of processes (ulimit -u)");
    }
    return {n_thread, std::accumulate(rates.begin(), rates.end(), 0.0)};
}

} // namespace

std::vector<MemorySample> probe_memory(uint32_t threads_max, uint64_t bytes, double seconds_per_sample) {
    const Array array(std::max(bytes, MiB));
    std::vector<MemorySample> samples;
    for (uint32_t n = 1; n < threads_max; n *= 2) {
        samples.push_back(measure(array.words(), n, seconds_per_sample));
    }
    samples.push_back(measure(array.words(), std::max(threads_max, 1U), seconds_per_sample));
    return samples;
}

} // namespace larder

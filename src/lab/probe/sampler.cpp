#include "lab/probe/sampler.h"

#include "base/error.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace larder {

namespace {

using Clock = std::chrono::steady_clock;

double us_between(Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double, std::micro>(end - begin).count();
}

// Page-aligned memory. Its pages are touched before the time measurement starts.
class Buffers {
  public:
    explicit Buffers(uint64_t bytes) : bytes_(bytes) {
        data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data_ == MAP_FAILED) {
            throw Error::from_errno(errno, "no memory for the reads of the probe", "take smaller --sizes or --depths");
        }
        std::memset(data_, 1, bytes);
    }
    ~Buffers() { ::munmap(data_, bytes_); }
    Buffers(const Buffers &) = delete;
    Buffers &operator=(const Buffers &) = delete;
    [[nodiscard]] char *at(uint64_t offset) const { return static_cast<char *>(data_) + offset; }

  private:
    void *data_;
    uint64_t bytes_;
};

class Sample {
  public:
    Sample(Reader &reader, std::span<const WindowPlace> places, const SampleOptions &options)
        : reader_(reader), places_(places), options_(options), memory_(options.depth * options.request_bytes),
          place_of_slot_(options.depth), submitted_(options.depth), results_(options.depth) {
        for (uint32_t slot = 0; slot < options.depth; slot++) {
            idle_.push_back(slot);
        }
        latencies_us_.reserve(places.size());
    }
    // Waits for all reads, because they write into memory_.
    ~Sample() {
        while (reader_.in_flight() > 0) {
            (void)reader_.poll(results_, std::chrono::milliseconds::max());
        }
    }
    Sample(const Sample &) = delete;
    Sample &operator=(const Sample &) = delete;

    void run() {
        begin_ = Clock::now();
        end_ = begin_;
        start_reads();
        while (reader_.in_flight() > 0) {
            const size_t count = reader_.poll(results_, std::chrono::milliseconds::max());
            end_ = count > 0 ? Clock::now() : end_;
            for (const ReadResult &result : std::span(results_).first(count)) {
                take(result);
            }
            start_reads();
        }
    }

    [[nodiscard]] const ReadResult *failed() const { return failed_.error == 0 ? nullptr : &failed_; }
    [[nodiscard]] WindowPlace failed_place() const { return places_[failed_.tag]; }

    [[nodiscard]] DiskSample result() {
        DiskSample sample;
        sample.request_bytes = options_.request_bytes;
        sample.depth = options_.depth;
        sample.n_request = latencies_us_.size();
        sample.bytes_read = sample.n_request * options_.request_bytes;
        const double us = us_between(begin_, end_);
        sample.bytes_per_second = us > 0 ? static_cast<double>(sample.bytes_read) * 1e6 / us : 0;
        std::ranges::sort(latencies_us_);
        if (!latencies_us_.empty()) {
            sample.latency_us_median = latencies_us_[latencies_us_.size() / 2];
            sample.latency_us_p99 = latencies_us_[latencies_us_.size() * 99 / 100];
        }
        return sample;
    }

  private:
    void start_reads() {
        const bool over = us_between(begin_, end_) > options_.seconds * 1e6;
        requests_.clear();
        while (!idle_.empty() && next_ < places_.size() && !over && failed_.error == 0) {
            const uint32_t slot = idle_.back();
            idle_.pop_back();
            const WindowPlace place = places_[next_];
            place_of_slot_[slot] = next_++;
            requests_.push_back({place.file, place.offset, memory_.at(slot * options_.request_bytes),
                                 options_.request_bytes, options_.request_bytes, slot});
        }
        if (!requests_.empty()) {
            const Clock::time_point now = Clock::now();
            for (const ReadRequest &request : requests_) {
                submitted_[request.tag] = now;
            }
            reader_.submit(requests_);
        }
    }

    void take(const ReadResult &result) {
        const auto slot = static_cast<uint32_t>(result.tag);
        if (result.error != 0) {
            failed_ = {place_of_slot_[slot], result.error, result.bytes_read};
        }
        latencies_us_.push_back(us_between(submitted_[slot], end_));
        idle_.push_back(slot);
    }

    Reader &reader_;
    std::span<const WindowPlace> places_;
    const SampleOptions options_;
    Buffers memory_;
    std::vector<size_t> place_of_slot_;
    std::vector<Clock::time_point> submitted_; // by slot
    std::vector<uint32_t> idle_;               // slots with no read in flight
    std::vector<ReadRequest> requests_;
    std::vector<ReadResult> results_;
    std::vector<double> latencies_us_;
    ReadResult failed_; // its tag is the index of the place
    size_t next_ = 0;
    Clock::time_point begin_;
    Clock::time_point end_; // of the latest results
};

} // namespace

DiskSample take_sample(Reader &reader, const std::vector<std::string> &paths, std::span<const WindowPlace> places,
                       const SampleOptions &options) {
    Sample sample(reader, places, options);
    sample.run();
    if (const ReadResult *failed = sample.failed()) {
        const WindowPlace place = sample.failed_place();
        const std::string doing = fmt::format("cannot read {} at offset {}", paths[place.file], place.offset);
        throw failed->error == ENODATA
            ? Error(ErrorKind::io, doing + ": the file has become shorter", "measure a file that nobody writes to")
            : Error::from_errno(failed->error, doing, "check the disk (dmesg)");
    }
    return sample.result();
}

} // namespace larder

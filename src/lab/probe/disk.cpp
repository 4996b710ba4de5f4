// The measurement of the disk: which samples are taken, of which places, and what the page cache had to do with them.
#include "base/bytes.h"
#include "base/error.h"
#include "lab/probe/page_cache.h"
#include "lab/probe/probe.h"
#include "lab/probe/sampler.h"
#include "lab/probe/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace larder {

namespace {

constexpr uint32_t depth_max = 1024;
constexpr uint64_t request_bytes_max = GiB;

// The sum over the places; absent if the kernel does not tell of one.
std::optional<uint64_t> cached_bytes(const PageCache &cache, std::span<const WindowPlace> places, uint64_t bytes) {
    uint64_t sum = 0;
    for (const WindowPlace &place : places) {
        const std::optional<uint64_t> cached = cache.cached_bytes(place.file, place.offset, bytes);
        if (!cached) {
            return std::nullopt;
        }
        sum += *cached;
    }
    return sum;
}

void check(const DiskProbe &wanted, const std::vector<uint64_t> &file_bytes) {
    if (wanted.depths.empty() || wanted.request_bytes.empty()) {
        throw Error(ErrorKind::usage, "nothing to measure", "name at least one size and one depth");
    }
    for (const uint32_t depth : wanted.depths) {
        if (depth == 0 || depth > depth_max) {
            throw Error(ErrorKind::usage, fmt::format("a depth of {} is not one of 1 to {}", depth, depth_max),
                        "give other --depths");
        }
    }
    const uint64_t longest = *std::ranges::max_element(file_bytes);
    for (const uint64_t bytes : wanted.request_bytes) {
        if (bytes == 0 || bytes > std::min(longest, request_bytes_max)) {
            throw Error(ErrorKind::usage,
                        fmt::format("no read of {} fits into {} of {}", format_bytes(bytes), wanted.paths.front(),
                                    format_bytes(longest)),
                        "name a larger file or smaller --sizes");
        }
    }
}

// All samples of reads of one size.
class SizeProbe {
  public:
    SizeProbe(const DiskProbe &wanted, Reader &reader, const PageCache &cache, uint64_t request_bytes)
        : wanted_(wanted), reader_(reader), cache_(cache), request_bytes_(request_bytes),
          windows_(cache.file_bytes(), request_bytes, wanted.seed) {}

    DiskSample sample(uint32_t depth, bool random) {
        const std::vector<WindowPlace> places = next_places(depth, random);
        if (!reader_.info().direct_io) {
            cache_.drop();
        }
        std::vector<uint64_t> cached_to(places.size() + 1); // of the places up to this one
        std::optional<uint64_t> before = 0;
        for (size_t i = 0; i < places.size() && before; i++) {
            const std::optional<uint64_t> cached = cached_bytes(cache_, {&places[i], 1}, request_bytes_);
            before = cached ? std::optional(*before + *cached) : std::nullopt;
            cached_to[i + 1] = before.value_or(0);
        }
        DiskSample sample =
            take_sample(reader_, wanted_.paths, places, {request_bytes_, depth, wanted_.seconds_per_sample});
        sample.random = random;
        (random ? random_next_ : sequential_next_) += sample.n_request;
        if (before) {
            sample.cached_bytes = cached_to[sample.n_request];
            const std::optional<uint64_t> after =
                cached_bytes(cache_, std::span(places).first(sample.n_request), request_bytes_);
            cache_was_filled_ |= reader_.info().direct_io && after.value_or(0) > *sample.cached_bytes;
        }
        return sample;
    }

    [[nodiscard]] bool cache_was_filled() const { return cache_was_filled_; }

  private:
    // No more than there are windows, so that none comes twice.
    [[nodiscard]] std::vector<WindowPlace> next_places(uint32_t depth, bool random) const {
        const uint64_t wished = std::max<uint64_t>(depth, wanted_.bytes_per_sample / request_bytes_);
        const uint64_t first = random ? random_next_ : sequential_next_;
        std::vector<WindowPlace> places;
        for (uint64_t i = 0; i < std::min(wished, windows_.count()); i++) {
            const uint64_t number = (first + i) % windows_.count();
            places.push_back(random ? windows_.random(number) : windows_.sequential(number));
        }
        return places;
    }

    const DiskProbe &wanted_;
    Reader &reader_;
    const PageCache &cache_;
    const uint64_t request_bytes_;
    const Windows windows_;
    uint64_t random_next_ = 0;
    uint64_t sequential_next_ = 0;
    bool cache_was_filled_ = false;
};

} // namespace

const DiskSample *DiskReport::best(uint64_t request_bytes, bool random) const {
    const DiskSample *best = nullptr;
    for (const DiskSample &sample : samples) {
        const bool asked_for =
            sample.request_bytes == align_up(request_bytes, read_alignment) && sample.random == random;
        if (asked_for && (best == nullptr || sample.bytes_per_second > best->bytes_per_second)) {
            best = &sample;
        }
    }
    return best;
}

DiskReport probe_disk(const DiskProbe &wanted) {
    const PageCache cache(wanted.paths);
    DiskProbe aligned = wanted;
    for (uint64_t &bytes : aligned.request_bytes) {
        bytes = align_up(std::min(bytes, 2 * request_bytes_max), read_alignment);
    }
    check(aligned, cache.file_bytes());
    aligned.reader.depth = std::max(wanted.reader.depth, *std::ranges::max_element(wanted.depths));
    const std::unique_ptr<Reader> reader = open_reader(wanted.paths, aligned.reader);
    cache.write_back();
    DiskReport report;
    report.reader = reader->info();
    bool cache_was_filled = false;
    for (const uint64_t request_bytes : aligned.request_bytes) {
        SizeProbe probe(aligned, *reader, cache, request_bytes);
        for (const uint32_t depth : wanted.depths) {
            report.samples.push_back(probe.sample(depth, true));
            if (wanted.sequential) {
                report.samples.push_back(probe.sample(depth, false));
            }
        }
        cache_was_filled |= probe.cache_was_filled();
    }
    if (cache_was_filled) {
        const std::string notice = "the file system takes direct I/O (O_DIRECT), but reads through the page cache";
        report.reader.notice += report.reader.notice.empty() ? notice : "; " + notice;
    }
    return report;
}

} // namespace larder

// Measures the disk: chooses samples and their positions in the files.
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

// Takes all samples for reads of one size.
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
        const std::vector<std::optional<uint64_t>> cached = cached_up_to(places);
        DiskSample sample =
            take_sample(reader_, wanted_.paths, places, {request_bytes_, depth, wanted_.seconds_per_sample});
        sample.random = random;
        (random ? random_next_ : sequential_next_) += sample.n_request;
        sample.cached_bytes = cached[sample.n_request];
        return sample;
    }

  private:
    // Bytes of the first 0, 1, 2, … places that are in the page cache. None from the first place on for which the
    // kernel does not report it.
    [[nodiscard]] std::vector<std::optional<uint64_t>> cached_up_to(std::span<const WindowPlace> places) const {
        std::vector<std::optional<uint64_t>> sums(places.size() + 1);
        sums[0] = 0;
        for (size_t i = 0; i < places.size() && sums[i]; i++) {
            if (const auto bytes = cache_.cached_bytes(places[i].file, places[i].offset, request_bytes_)) {
                sums[i + 1] = *sums[i] + *bytes;
            }
        }
        return sums;
    }
    // At most as many places as there are windows, so that no window is read twice.
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
};

} // namespace

const DiskSample *DiskReport::best(uint64_t request_bytes, bool random) const {
    const DiskSample *best = nullptr;
    for (const DiskSample &sample : samples) {
        const bool asked_for =
            sample.request_bytes == align_up(request_bytes, direct_io_alignment) && sample.random == random;
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
        bytes = align_up(std::min(bytes, 2 * request_bytes_max), direct_io_alignment);
    }
    check(aligned, cache.file_bytes());
    aligned.reader.depth = *std::ranges::max_element(wanted.depths);
    aligned.reader.requests_max = aligned.reader.depth;
    const std::unique_ptr<Reader> reader = open_reader(wanted.paths, aligned.reader);
    cache.write_back();
    DiskReport report;
    report.reader = reader->info();
    for (const uint64_t request_bytes : aligned.request_bytes) {
        SizeProbe probe(aligned, *reader, cache, request_bytes);
        for (const uint32_t depth : wanted.depths) {
            report.samples.push_back(probe.sample(depth, true));
            if (wanted.sequential) {
                report.samples.push_back(probe.sample(depth, false));
            }
        }
    }
    return report;
}

} // namespace larder

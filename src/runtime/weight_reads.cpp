#include "runtime/weight_reads.h"

#include "base/bytes.h"
#include "base/error.h"
#include "machine/out_of_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

namespace larder {

namespace {

// Page-aligned memory for the reads in flight.
class Buffers {
  public:
    Buffers() : memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        if (memory_ == MAP_FAILED) {
            throw out_of_memory("cannot map buffers to read weights");
        }
    }
    ~Buffers() {
        if (memory_ != nullptr) {
            munmap(memory_, bytes);
        }
    }
    Buffers(const Buffers &) = delete;
    Buffers &operator=(const Buffers &) = delete;
    [[nodiscard]] char *at(size_t i) const { return static_cast<char *>(memory_) + i * weight_read_bytes_max; }
    // Leaves the memory mapped: the kernel may still write into it.
    void give_up() { memory_ = nullptr; }

  private:
    static constexpr uint64_t bytes = weight_read_bytes_max * weight_reads_at_once;
    void *memory_;
};

// Waits for results. Returns at least one, or none after the time-out (0: no limit). Waits again if wake() interrupted
// the poll.
size_t poll_until(Reader &reader, std::span<ReadResult> results, std::chrono::milliseconds timeout) {
    using Clock = std::chrono::steady_clock;
    if (timeout.count() == 0) {
        size_t count = 0;
        while (count == 0 && reader.in_flight() > 0) {
            count = reader.poll(results, std::chrono::milliseconds::max());
        }
        return count;
    }
    const Clock::time_point end = Clock::now() + timeout;
    size_t count = 0;
    for (Clock::time_point now = Clock::now(); count == 0 && now < end; now = Clock::now()) {
        count = reader.poll(results, std::chrono::ceil<std::chrono::milliseconds>(end - now));
    }
    return count;
}

// The reads of one load. Their buffers outlive them, however the load ends.
class ReadsUnderWay {
  public:
    ReadsUnderWay(Reader &reader, std::span<const WeightRead> reads, std::chrono::milliseconds timeout)
        : reader_(reader), reads_(reads), timeout_(timeout) {}
    ~ReadsUnderWay() {
        std::array<ReadResult, weight_reads_at_once> results;
        while (reader_.in_flight() > 0) {
            if (poll_until(reader_, results, timeout_) == 0) {
                buffers_.give_up();
                return;
            }
        }
    }
    ReadsUnderWay(const ReadsUnderWay &) = delete;
    ReadsUnderWay &operator=(const ReadsUnderWay &) = delete;

    // Starts the next read into this buffer, if there is one.
    void start_next(size_t buffer) {
        if (next_ < reads_.size()) {
            const WeightRead &read = reads_[next_];
            in_buffer_.at(buffer) = next_++;
            const ReadRequest request{read.file,         read.window.offset, buffers_.at(buffer),
                                      read.window.bytes, read.needed,        buffer};
            reader_.submit({&request, 1});
        }
    }
    [[nodiscard]] bool any() const { return reader_.in_flight() > 0; }
    // At least one result, or none after the time-out.
    std::span<const ReadResult> wait() { return {results_.data(), poll_until(reader_, results_, timeout_)}; }
    [[nodiscard]] const WeightRead &read_of(const ReadResult &result) const {
        return reads_[in_buffer_.at(result.tag)];
    }
    [[nodiscard]] const char *bytes_of(const ReadResult &result) const { return buffers_.at(result.tag); }

  private:
    Reader &reader_;
    std::span<const WeightRead> reads_;
    std::chrono::milliseconds timeout_;
    Buffers buffers_;
    std::array<size_t, weight_reads_at_once> in_buffer_{}; // index of the read in each buffer
    std::array<ReadResult, weight_reads_at_once> results_;
    size_t next_ = 0;
};

Error failed(const ModelLayout &layout, const WeightRead &read, int error) {
    const std::string what = fmt::format("{}: reading {} at offset {}", layout.files[read.file],
                                         format_bytes(read.window.bytes), read.window.offset);
    return error == ENODATA
               ? Error(ErrorKind::io, what + ": the file ended early", "it has become shorter; get it again")
               : Error::from_errno(error, what, "check the disk (dmesg) and try again");
}

} // namespace

std::vector<WeightRead> weight_reads(std::span<const WeightPiece> pieces) {
    std::vector<WeightRead> reads;
    for (size_t i = 0; i < pieces.size(); i++) {
        const Extent &extent = pieces[i].extent;
        const uint64_t end = extent.offset + extent.bytes;
        uint64_t at = align_down(extent.offset, direct_io_alignment);
        if (!reads.empty() && reads.back().file == extent.file) {
            WeightRead &last = reads.back();
            const uint64_t last_end = last.window.offset + last.window.bytes;
            // Continues the last read.
            if (at < last_end || (at == last_end && last.window.bytes < weight_read_bytes_max)) {
                const uint64_t grown =
                    std::min(align_up(end, direct_io_alignment), last.window.offset + weight_read_bytes_max);
                last.window.bytes = std::max(last.window.bytes, grown - last.window.offset);
                last.needed = std::max(last.needed, std::min(end, grown) - last.window.offset);
                at = last.window.offset + last.window.bytes;
            }
        }
        while (at < end) {
            const uint64_t bytes = std::min(weight_read_bytes_max, align_up(end, direct_io_alignment) - at);
            reads.push_back({extent.file, {at, bytes, 0}, std::min(bytes, end - at), i});
            at += bytes;
        }
    }
    return reads;
}

void read_weights(Reader &reader, const ModelLayout &layout, std::span<const WeightRead> reads,
                  std::chrono::milliseconds timeout,
                  const std::function<void(const WeightRead &read, const char *bytes)> &arrived) {
    ReadsUnderWay under_way(reader, reads, timeout);
    for (size_t buffer = 0; buffer < weight_reads_at_once; buffer++) {
        under_way.start_next(buffer);
    }
    while (under_way.any()) {
        const std::span<const ReadResult> results = under_way.wait();
        if (results.empty()) {
            throw Error(ErrorKind::io,
                        fmt::format("{}: no read ended within {} s", layout.files.front(),
                                    std::chrono::duration_cast<std::chrono::seconds>(timeout).count()),
                        "check the disk (dmesg), or give it longer with --io-timeout");
        }
        for (const ReadResult &result : results) {
            const WeightRead &read = under_way.read_of(result);
            if (result.error != 0) {
                throw failed(layout, read, result.error);
            }
            arrived(read, under_way.bytes_of(result));
            under_way.start_next(result.tag);
        }
    }
}

} // namespace larder

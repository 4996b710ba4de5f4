// sim_reader.h — a simulated disk that implements Reader, for tests of code that reads.
//
// File contents are a pure function of (file, offset), so any byte can be checked without storing files. The order of
// completions is random with a seed: the same seed and calls give the same run. Faults are set by request number or by
// range. Errors that a real disk may tolerate are checked here: unaligned requests, and two requests in flight into the
// same memory. The memory of a request is filled with `unread_byte` until it completes.
//
// Time is simulated too. It stands still until a test calls pass(); polls whose time-out has then passed may return 0.
// A stalled disk completes nothing, and a poll that would wait advances the time itself.
//
// Threads: submit() and poll() as in io.h. All other functions from any thread, so that a test can hold back
// completions while other threads wait for them.
#pragma once

#include "base/check.h"
#include "io/io.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <utility>

namespace larder::test {

struct SimOptions {
    uint64_t seed = 1;
    uint64_t file_bytes = std::numeric_limits<uint64_t>::max(); // of every file; reads beyond it are short
    uint64_t alignment = 4096;                                  // offset, bytes and memory must be multiples of it
    bool in_order = false;                                      // completions in the order of submission, all at once
};

class SimReader : public Reader {
  public:
    static constexpr char unread_byte = '\x5a';

    explicit SimReader(SimOptions options = {}) : options_(options), random_(options.seed) {
        info_.backend = "simulated";
        info_.direct_io = options.alignment > 1;
    }

    // --- contents of the files ---

    static char byte_at(uint32_t file, uint64_t offset) {
        return static_cast<char>((word_at(file, offset / 8) >> (8 * (offset % 8))) & 0xff);
    }
    static void fill(uint32_t file, uint64_t offset, char *into, uint64_t bytes) {
        uint64_t word = 0;
        for (uint64_t i = 0; i < bytes; i++) {
            const uint64_t at = offset + i;
            if (i == 0 || at % 8 == 0) {
                word = word_at(file, at / 8);
            }
            into[i] = static_cast<char>((word >> (8 * (at % 8))) & 0xff);
        }
    }
    // True if `data` equals the contents of the file at this offset.
    static bool matches(uint32_t file, uint64_t offset, const char *data, uint64_t bytes) {
        std::vector<char> expected(bytes);
        fill(file, offset, expected.data(), bytes);
        return std::memcmp(expected.data(), data, bytes) == 0;
    }

    // --- faults ---

    // The request with this number fails; 0 is the first one ever submitted.
    void fail_request(uint64_t number, int error) {
        const std::lock_guard lock(mutex_);
        request_faults_[number] = error;
    }
    // Every request that touches the range fails until heal(), including requests in flight.
    void fail_range(uint32_t file, uint64_t offset, uint64_t bytes, int error) {
        const std::lock_guard lock(mutex_);
        range_faults_.push_back({{file, offset, bytes}, error});
    }
    // Requests that touch the range complete only when no other request is in flight.
    void delay_range(uint32_t file, uint64_t offset, uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        late_ranges_.push_back({file, offset, bytes});
    }
    // Removes all faults and delays.
    void heal() {
        const std::lock_guard lock(mutex_);
        request_faults_.clear();
        range_faults_.clear();
        late_ranges_.clear();
    }

    // --- holding back completions ---

    // From now on no request completes. A poll with a time-out blocks while something is in flight.
    void hold() {
        const std::lock_guard lock(mutex_);
        allowance_ = 0;
    }
    // The same, but such a poll returns 0 immediately and advances the time by its time-out. Until resume().
    void stall() {
        const std::lock_guard lock(mutex_);
        allowance_ = 0;
        stalled_ = true;
        changed_.notify_all();
    }
    // Allows `count` more completions while held.
    void let(uint64_t count) {
        const std::lock_guard lock(mutex_);
        allowance_ += std::min(count, unlimited - allowance_);
        changed_.notify_all();
    }
    void resume() {
        const std::lock_guard lock(mutex_);
        stalled_ = false;
        allowance_ = unlimited;
        changed_.notify_all();
    }

    // --- time ---

    void pass(std::chrono::milliseconds time) {
        const std::lock_guard lock(mutex_);
        now_ += time;
        changed_.notify_all();
    }
    [[nodiscard]] std::chrono::milliseconds now() const {
        const std::lock_guard lock(mutex_);
        return now_;
    }
    // The number of polls that are waiting now.
    [[nodiscard]] uint64_t waiting() const {
        const std::lock_guard lock(mutex_);
        return waiting_;
    }

    // --- identities of the files ---

    // The file was replaced or written to: its descriptor now has this identity.
    void set_identity(uint32_t file, const FileIdentity &identity) {
        const std::lock_guard lock(mutex_);
        identities_[file] = identity;
    }

    // --- recorded requests ---

    [[nodiscard]] std::vector<ReadRequest> requests() const {
        const std::lock_guard lock(mutex_);
        return history_;
    }
    [[nodiscard]] uint64_t request_count() const {
        const std::lock_guard lock(mutex_);
        return history_.size();
    }
    // The number of requests that began at exactly this offset.
    [[nodiscard]] uint64_t reads_at(uint32_t file, uint64_t offset) const {
        const std::lock_guard lock(mutex_);
        const auto found = reads_.find({file, offset});
        return found == reads_.end() ? 0 : found->second;
    }
    [[nodiscard]] uint64_t max_in_flight() const {
        const std::lock_guard lock(mutex_);
        return max_in_flight_;
    }
    [[nodiscard]] uint64_t submit_calls() const {
        const std::lock_guard lock(mutex_);
        return submit_calls_;
    }
    void forget_requests() {
        const std::lock_guard lock(mutex_);
        history_.clear();
        reads_.clear();
        max_in_flight_ = pending_.size();
        submit_calls_ = 0;
    }

    // --- Reader ---

    void submit(std::span<const ReadRequest> requests) override {
        const std::lock_guard lock(mutex_);
        submit_calls_++;
        for (const ReadRequest &request : requests) {
            check(request);
            std::memset(request.into, unread_byte, request.bytes);
            pending_.push_back({request, next_number_++});
            history_.push_back(request);
            reads_[{request.file, request.offset}]++;
        }
        max_in_flight_ = std::max<uint64_t>(max_in_flight_, pending_.size());
    }

    size_t poll(std::span<ReadResult> results, std::chrono::milliseconds at_most) override {
        std::unique_lock lock(mutex_);
        const bool may_wait = at_most > std::chrono::milliseconds(0) && !results.empty();
        if (may_wait) {
            wait_for_completion(lock, at_most);
        }
        const uint64_t ready = std::min<uint64_t>({pending_.size(), allowance_, results.size()});
        if (ready == 0) {
            return 0;
        }
        // Without in_order a poll returns a random part of the ready completions: at least one if it may wait.
        const uint64_t count = options_.in_order ? ready : draw(may_wait ? 1 : 0, ready);
        for (uint64_t i = 0; i < count; i++) {
            const auto chosen = pending_.begin() + static_cast<std::ptrdiff_t>(choose());
            results[i] = complete(*chosen);
            pending_.erase(chosen);
        }
        if (allowance_ != unlimited) {
            allowance_ -= count;
        }
        return count;
    }

    void wake() noexcept override {
        const std::lock_guard lock(mutex_);
        woken_ = true;
        changed_.notify_all();
    }

    [[nodiscard]] size_t in_flight() const override {
        const std::lock_guard lock(mutex_);
        return pending_.size();
    }
    [[nodiscard]] const ReaderInfo &info() const override { return info_; }
    [[nodiscard]] FileIdentity identity(uint32_t file) const override {
        const std::lock_guard lock(mutex_);
        const auto found = identities_.find(file);
        return found != identities_.end()
                   ? found->second
                   : FileIdentity{.device = 1, .inode = uint64_t{file} + 1, .bytes = options_.file_bytes};
    }

  private:
    static constexpr uint64_t unlimited = std::numeric_limits<uint64_t>::max();

    struct Range {
        uint32_t file = 0;
        uint64_t offset = 0;
        uint64_t bytes = 0;
        [[nodiscard]] bool touches(const ReadRequest &request) const {
            return file == request.file && offset < request.offset + request.bytes && request.offset < offset + bytes;
        }
    };
    struct Pending {
        ReadRequest request;
        uint64_t number = 0;
    };

    // SplitMix64 of the word's position: bytes at different positions are unrelated.
    static uint64_t word_at(uint32_t file, uint64_t word) {
        uint64_t x = word + 0x9e3779b97f4a7c15ULL * (uint64_t{file} + 1);
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
        return x ^ (x >> 31);
    }

    void wait_for_completion(std::unique_lock<std::mutex> &lock, std::chrono::milliseconds at_most) {
        const auto ready = [this] { return pending_.empty() || allowance_ > 0; };
        const std::chrono::milliseconds deadline =
            at_most > std::chrono::milliseconds::max() - now_ ? std::chrono::milliseconds::max() : now_ + at_most;
        waiting_++;
        changed_.wait(lock, [&] { return ready() || woken_ || stalled_ || now_ >= deadline; });
        waiting_--;
        if (ready()) {
            return;
        }
        if (woken_) {
            woken_ = false;
        } else if (stalled_) {
            LARDER_CHECK(at_most < std::chrono::milliseconds::max()); // otherwise it would wait for ever
            now_ = std::max(now_, deadline);
        }
    }

    uint64_t draw(uint64_t low, uint64_t high) { return low + random_() % (high - low + 1); }

    void check(const ReadRequest &request) const {
        const uint64_t alignment = options_.alignment;
        LARDER_CHECK(request.into != nullptr && request.bytes > 0 && request.bytes_needed <= request.bytes);
        LARDER_CHECK(request.offset % alignment == 0 && request.bytes % alignment == 0);
        LARDER_CHECK(reinterpret_cast<uintptr_t>(request.into) % alignment == 0);
        for (const Pending &other : pending_) {
            const bool apart = request.into + request.bytes <= other.request.into ||
                               other.request.into + other.request.bytes <= request.into;
            LARDER_CHECK(apart);
        }
    }

    [[nodiscard]] bool late(const ReadRequest &request) const {
        return std::any_of(late_ranges_.begin(), late_ranges_.end(),
                           [&](const Range &range) { return range.touches(request); });
    }

    // The index of the pending request that completes next.
    size_t choose() {
        const size_t first = options_.in_order ? 0 : draw(0, pending_.size() - 1);
        for (size_t i = 0; i < pending_.size(); i++) {
            const size_t candidate = (first + i) % pending_.size();
            if (!late(pending_[candidate].request)) {
                return candidate;
            }
        }
        return first;
    }

    [[nodiscard]] int fault_of(const Pending &pending) const {
        const auto numbered = request_faults_.find(pending.number);
        if (numbered != request_faults_.end()) {
            return numbered->second;
        }
        for (const auto &[range, error] : range_faults_) {
            if (range.touches(pending.request)) {
                return error;
            }
        }
        return 0;
    }

    [[nodiscard]] ReadResult complete(const Pending &pending) const {
        const ReadRequest &request = pending.request;
        const uint64_t in_file = options_.file_bytes - std::min(options_.file_bytes, request.offset);
        ReadResult result{request.tag, fault_of(pending), std::min(request.bytes, in_file)};
        if (result.error != 0) {
            result.bytes_read = 0;
            return result;
        }
        fill(request.file, request.offset, request.into, result.bytes_read);
        if (result.bytes_read < request.bytes_needed) {
            result.error = ENODATA;
        }
        return result;
    }

    const SimOptions options_;
    ReaderInfo info_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::mt19937_64 random_;
    std::vector<Pending> pending_; // in order of submission
    uint64_t next_number_ = 0;
    uint64_t allowance_ = unlimited; // completions that are still allowed
    bool stalled_ = false;
    bool woken_ = false;
    uint64_t waiting_ = 0;
    std::chrono::milliseconds now_{0};
    std::map<uint32_t, FileIdentity> identities_; // those that were set
    std::map<uint64_t, int> request_faults_;
    std::vector<std::pair<Range, int>> range_faults_;
    std::vector<Range> late_ranges_;
    std::vector<ReadRequest> history_;
    std::map<std::pair<uint32_t, uint64_t>, uint64_t> reads_;
    uint64_t max_in_flight_ = 0;
    uint64_t submit_calls_ = 0;
};

} // namespace larder::test

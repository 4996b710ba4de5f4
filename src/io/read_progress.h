// read_progress.h — one request on its way: what to read next, and what each answer of the kernel means.
//
// Both backends step through it, so that short reads, interruptions and the end of the file mean the same in both.
#pragma once

#include "base/bytes.h"
#include "io/io.h"

#include <algorithm>
#include <cerrno>

namespace larder {

class ReadProgress {
  public:
    ReadProgress() = default;
    ReadProgress(const ReadRequest &request, bool direct) : request_(request), direct_(direct) {}

    // The read to make next.
    [[nodiscard]] uint64_t offset() const { return request_.offset + resume_; }
    [[nodiscard]] char *into() const { return request_.into + resume_; }
    [[nodiscard]] uint32_t bytes() const {
        return static_cast<uint32_t>(std::min(request_.bytes - resume_, bytes_per_read_max));
    }

    // Takes the answer: the number of bytes, or a negative errno value. True when the request has finished.
    bool advance(int64_t answer) {
        if (answer < 0) {
            return !retry(static_cast<int>(-answer));
        }
        const uint64_t arrived = resume_ + static_cast<uint64_t>(answer);
        const bool progress = arrived > arrived_;
        arrived_ = std::max(arrived_, arrived);
        if (arrived_ >= request_.bytes_needed) {
            return true;
        }
        if (!progress) {
            error_ = ENODATA;
            return true;
        }
        // Direct I/O begins at whole blocks: what arrived of the last one is read again.
        resume_ = direct_ ? align_down(arrived_, read_alignment) : arrived_;
        return false;
    }

    [[nodiscard]] const ReadRequest &request() const { return request_; }
    [[nodiscard]] ReadResult result() const { return {request_.tag, error_, arrived_}; }

  private:
    // Linux reads at most 2 GiB - 4 KiB at once; this is the largest power of two below.
    static constexpr uint64_t bytes_per_read_max = GiB;
    // An interruption passes. A kernel that says "again" this often means "no".
    static constexpr uint32_t retries_max = 1000;
    // io_uring finishes a read on the thread that submitted it. If that has ended, the read is cancelled or finds no
    // memory to write to. Memory that is really not there is found out by trying a few times more.
    static constexpr uint32_t orphan_retries_max = 8;

    bool retry(int error) {
        const bool passes = error == EINTR || error == EAGAIN;
        const bool orphaned = error == ECANCELED || error == EFAULT;
        if ((passes && retries_ < retries_max) || (orphaned && retries_ < orphan_retries_max)) {
            retries_++;
            return true;
        }
        error_ = error;
        return false;
    }

    ReadRequest request_;
    bool direct_ = false;
    uint64_t arrived_ = 0; // bytes from the window's start that are in memory
    uint64_t resume_ = 0;  // where the next read begins, from the window's start; at most arrived_
    uint32_t retries_ = 0;
    int error_ = 0;
};

} // namespace larder

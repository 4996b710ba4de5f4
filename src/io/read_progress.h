// read_progress.h — the state of one request: the next read, and how to interpret each result of the kernel (private to
// io).
//
// Both backends use it, so they treat short reads, interruptions and the end of the file alike.
#pragma once

#include "base/bytes.h"
#include "io/io.h"

#include <algorithm>
#include <cerrno>

namespace larder {

class ReadProgress {
  public:
    ReadProgress() = default;
    // `direct`: the file was opened with O_DIRECT.
    ReadProgress(const ReadRequest &request, bool direct) : request_(request), direct_(direct) {}

    // The next read.
    [[nodiscard]] uint64_t offset() const { return request_.offset + resume_; }
    [[nodiscard]] char *into() const { return request_.into + resume_; }
    [[nodiscard]] uint32_t bytes() const {
        return static_cast<uint32_t>(std::min(request_.bytes - resume_, bytes_per_read_max));
    }

    // Processes the result of a read: a number of bytes, or a negative errno value. Returns true when the request has
    // finished. `file_bytes()` returns the current size of the file; it is called only after a read that made no
    // progress.
    template <class FileBytes> bool advance(int64_t answer, const FileBytes &file_bytes) {
        if (answer < 0) {
            return !retry(static_cast<int>(-answer));
        }
        const uint64_t arrived = resume_ + static_cast<uint64_t>(answer);
        const bool progress = arrived > arrived_;
        arrived_ = std::max(arrived_, arrived);
        if (arrived_ >= request_.bytes_needed) {
            return true;
        }
        if (progress) {
            stalls_ = 0;
        } else if (!go_on(file_bytes())) {
            return true;
        }
        // A direct read must begin at a block boundary, so the part of the last block that has arrived is read again.
        resume_ = direct_ && !unaligned_ ? align_down(arrived_, direct_io_alignment) : arrived_;
        return false;
    }

    [[nodiscard]] const ReadRequest &request() const { return request_; }
    [[nodiscard]] ReadResult result() const { return {request_.tag, error_, arrived_}; }

  private:
    // Linux reads at most 2 GiB - 4 KiB per call; this is the next lower power of two.
    static constexpr uint64_t bytes_per_read_max = GiB;
    // EINTR and EAGAIN are transient. After this many of them the request fails.
    static constexpr uint32_t retries_max = 1000;
    // io_uring completes a read on the thread that submitted it. If that thread has ended, the read is cancelled
    // (ECANCELED) or has no address space to write to (EFAULT). If the memory really does not exist, every retry fails
    // too.
    static constexpr uint32_t orphan_retries_max = 8;
    // Maximum of consecutive reads without progress although the file is long enough.
    static constexpr uint32_t stalls_max = 4;

    bool retry(int error) {
        const bool transient = error == EINTR || error == EAGAIN;
        const bool orphaned = error == ECANCELED || error == EFAULT;
        if ((transient && retries_ < retries_max) || (orphaned && retries_ < orphan_retries_max)) {
            retries_++;
            return true;
        }
        // EINVAL is the result of the unaligned read, but its cause is the short read before it.
        error_ = unaligned_ && error == EINVAL ? EIO : error;
        return false;
    }

    // Called after a read without progress. Some file systems (over a network, for example) return less than a block
    // before the end of the file. They may also accept a direct read that begins inside the block.
    bool go_on(uint64_t file_bytes) {
        if (file_bytes < request_.offset + request_.bytes_needed) {
            error_ = ENODATA;
            return false;
        }
        if (stalls_++ == stalls_max) {
            error_ = EIO;
            return false;
        }
        unaligned_ = direct_ && arrived_ % direct_io_alignment != 0;
        return true;
    }

    ReadRequest request_;
    bool direct_ = false;
    bool unaligned_ = false; // the next direct read begins inside a block
    uint64_t arrived_ = 0;   // bytes in memory, from the start of the request
    uint64_t resume_ = 0;    // where the next read begins, from the start of the request; at most arrived_
    uint32_t retries_ = 0;
    uint32_t stalls_ = 0;
    int error_ = 0;
};

} // namespace larder

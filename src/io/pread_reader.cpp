#include "io/pread_reader.h"

#include "base/check.h"
#include "base/error.h"
#include "io/deadline.h"
#include "io/read_progress.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>

namespace larder {

PreadReader::PreadReader(OpenFiles &&files, const ReaderLimits &limits, ReaderInfo info)
    : files_(std::move(files)), info_(std::move(info)), requests_max_(limits.requests_max),
      queued_(limits.requests_max), finished_(limits.requests_max) {
    const uint32_t wanted = std::clamp<uint32_t>(std::min(limits.depth, requests_max_), 1, threads_max);
    threads_.reserve(wanted);
    try {
        while (threads_.size() < wanted) {
            threads_.emplace_back([this] { work(); });
        }
    } catch (const std::system_error &error) {
        // Fewer threads only make reads slower.
        if (threads_.empty()) {
            throw Error::from_errno(error.code().value(), "cannot start a thread for reading",
                                    "raise the limit of processes (ulimit -u)");
        }
    }
}

PreadReader::~PreadReader() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    work_.notify_all();
    for (std::thread &thread : threads_) {
        thread.join();
    }
}

void PreadReader::submit(std::span<const ReadRequest> requests) {
    {
        const std::lock_guard lock(mutex_);
        LARDER_CHECK(requests.size() <= requests_max_ - in_flight_);
        in_flight_ += requests.size();
        for (const ReadRequest &request : requests) {
            files_.check(request);
            queued_.push(request);
        }
    }
    if (requests.size() == 1) {
        work_.notify_one();
    } else {
        work_.notify_all();
    }
}

size_t PreadReader::poll(std::span<ReadResult> results, std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    const bool would_wait = finished_.empty() && in_flight_ > 0 && !results.empty();
    if (would_wait && at_most > std::chrono::milliseconds(0)) {
        done_.wait_until(lock, Deadline(at_most).end(), [this] { return !finished_.empty() || woken_; });
        woken_ = false;
    }
    const size_t count = std::min(results.size(), finished_.size());
    for (size_t i = 0; i < count; i++) {
        results[i] = finished_.pop();
    }
    in_flight_ -= count;
    return count;
}

void PreadReader::wake() noexcept {
    {
        const std::lock_guard lock(mutex_);
        woken_ = true;
    }
    done_.notify_all();
}

size_t PreadReader::in_flight() const {
    const std::lock_guard lock(mutex_);
    return in_flight_;
}

void PreadReader::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        work_.wait(lock, [this] { return stopping_ || !queued_.empty(); });
        if (stopping_) {
            return; // queued requests were never begun, so their memory is not accessed any more
        }
        const ReadRequest request = queued_.pop();
        lock.unlock();
        const ReadResult result = read(request);
        lock.lock();
        finished_.push(result);
        done_.notify_one();
    }
}

ReadResult PreadReader::read(const ReadRequest &request) const {
    ReadProgress progress(request, files_.o_direct);
    const auto file_bytes = [&] { return files_.bytes_now(request.file); };
    const int fd = files_.fds[request.file].get();
    ssize_t answer = 0;
    do {
        answer = ::pread(fd, progress.into(), progress.bytes(), static_cast<off_t>(progress.offset()));
    } while (!progress.advance(answer < 0 ? -errno : answer, file_bytes));
    files_.drop_behind(request);
    return progress.result();
}

} // namespace larder

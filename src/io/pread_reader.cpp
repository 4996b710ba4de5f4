#include "io/pread_reader.h"

#include "base/error.h"
#include "io/read_progress.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>

namespace larder {

PreadReader::PreadReader(OpenFiles &&files, uint32_t depth, ReaderInfo info)
    : files_(std::move(files)), info_(std::move(info)) {
    const uint32_t wanted = std::clamp<uint32_t>(depth, 1, threads_max);
    threads_.reserve(wanted);
    try {
        while (threads_.size() < wanted) {
            threads_.emplace_back([this] { work(); });
        }
    } catch (const std::system_error &error) {
        // Fewer threads read slower but right.
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
        in_flight_ += requests.size();
        finished_.reserve(in_flight_); // workers never allocate
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
    if (at_most.count() > 0 && !results.empty()) {
        const auto done = [this] { return !finished_.empty() || in_flight_ == 0 || woken_; };
        if (at_most == std::chrono::milliseconds::max()) {
            done_.wait(lock, done);
        } else {
            done_.wait_for(lock, at_most, done);
        }
        woken_ = woken_ && !finished_.empty();
    }
    const size_t count = std::min(results.size(), finished_.size());
    for (size_t i = 0; i < count; i++) {
        results[i] = finished_.pop();
    }
    in_flight_ -= count;
    return count;
}

void PreadReader::wake() noexcept {
    const std::lock_guard lock(mutex_);
    woken_ = true;
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
            return; // what is still queued was never begun; its memory is not touched any more
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
    ReadProgress progress(request, files_.direct);
    const int fd = files_.fds[request.file].get();
    ssize_t answer = 0;
    do {
        answer = ::pread(fd, progress.into(), progress.bytes(), static_cast<off_t>(progress.offset()));
    } while (!progress.advance(answer < 0 ? -errno : answer));
    files_.drop_cached(request);
    return progress.result();
}

} // namespace larder

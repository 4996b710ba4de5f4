#include "io/uring_reader.h"

#include "base/check.h"
#include "base/error.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <numeric>

namespace larder {

namespace {

constexpr uint32_t depth_max = 4096; // far above what a disk queues, far below what the kernel allows

Error refused(int error) {
    std::string remedy = "choose the pread backend";
    if (error == EPERM || error == EACCES) {
        remedy = "allow it (kernel.io_uring_disabled, seccomp profile of the container), or " + remedy;
    } else if (error == ENOMEM) {
        remedy = "raise the limit of locked memory (ulimit -l), or " + remedy;
    }
    return Error::from_errno(error, "the kernel refuses io_uring", remedy);
}

// Kernels before 5.6 have io_uring, but neither this operation nor the means to ask for it.
bool can_read(io_uring *ring) {
    const std::unique_ptr<io_uring_probe, void (*)(io_uring_probe *)> probe(io_uring_get_probe_ring(ring),
                                                                            io_uring_free_probe);
    return probe != nullptr && io_uring_opcode_supported(probe.get(), IORING_OP_READ) != 0;
}

// Some sandboxes let a ring be made and refuse to enter it. Returns the errno value of the first entry, 0 if it works.
int enter_once(io_uring *ring) {
    io_uring_prep_nop(io_uring_get_sqe(ring));
    const int answer = io_uring_submit_and_wait(ring, 1);
    if (answer < 0) {
        return -answer;
    }
    io_uring_cqe *completion = nullptr;
    const int error = -io_uring_peek_cqe(ring, &completion);
    if (error == 0) {
        io_uring_cqe_seen(ring, completion);
    }
    return error;
}

} // namespace

Ring::Ring(uint32_t entries, const std::vector<UniqueFd> &fds) {
    // No flags: any thread of the caller may submit and any may reap, and a completion must show up without the
    // submitting thread entering the kernel. That rules out SINGLE_ISSUER, DEFER_TASKRUN and COOP_TASKRUN.
    int error = -io_uring_queue_init(entries, &ring_, 0);
    if (error != 0) {
        throw refused(error);
    }
    std::vector<int> numbers(fds.size());
    std::transform(fds.begin(), fds.end(), numbers.begin(), [](const UniqueFd &fd) { return fd.get(); });
    error = can_read(&ring_) ? enter_once(&ring_) : ENOSYS;
    if (error == 0 && !numbers.empty()) {
        error = -io_uring_register_files(&ring_, numbers.data(), static_cast<unsigned>(numbers.size()));
    }
    if (error != 0) {
        io_uring_queue_exit(&ring_);
        throw refused(error);
    }
}

Ring::~Ring() { io_uring_queue_exit(&ring_); }

UringReader::UringReader(OpenFiles &&files, uint32_t depth, ReaderInfo info)
    : ring_(std::clamp(depth, 1U, depth_max), files.fds), files_(std::move(files)), info_(std::move(info)),
      under_way_(std::clamp(depth, 1U, depth_max)), free_(under_way_.size()) {
    std::iota(free_.rbegin(), free_.rend(), 0U);
}

UringReader::~UringReader() {
    // The kernel writes into the callers' memory until the last completion. What is queued was never begun.
    while (free_.size() < under_way_.size()) {
        io_uring_cqe *completion = nullptr;
        while (io_uring_peek_cqe(ring_.get(), &completion) == 0) {
            free_.push_back(static_cast<uint32_t>(completion->user_data));
            io_uring_cqe_seen(ring_.get(), completion);
        }
        if (free_.size() < under_way_.size()) {
            enter();
            wait(std::chrono::steady_clock::time_point::max());
        }
    }
}

void UringReader::submit(std::span<const ReadRequest> requests) {
    for (const ReadRequest &request : requests) {
        files_.check(request);
        queued_.push(request);
    }
    in_flight_ += requests.size();
    start_queued();
    enter();
}

size_t UringReader::poll(std::span<ReadResult> results, std::chrono::milliseconds at_most) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point deadline =
        at_most > std::chrono::hours(24) ? Clock::time_point::max() : Clock::now() + at_most;
    while (true) {
        const size_t count = reap(results);
        start_queued();
        enter();
        if (count > 0 || in_flight_ == 0 || results.empty() || Clock::now() >= deadline || woken_.exchange(false)) {
            return count;
        }
        wait(deadline);
    }
}

void UringReader::wake() noexcept { woken_ = true; }

void UringReader::prepare(uint32_t index) {
    io_uring_sqe *entry = io_uring_get_sqe(ring_.get());
    LARDER_CHECK(entry != nullptr);
    const ReadProgress &progress = under_way_[index];
    io_uring_prep_read(entry, static_cast<int>(progress.request().file), progress.into(), progress.bytes(),
                       progress.offset());
    io_uring_sqe_set_flags(entry, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(entry, index);
}

void UringReader::start_queued() {
    while (!queued_.empty() && !free_.empty()) {
        const uint32_t index = free_.back();
        free_.pop_back();
        under_way_[index] = ReadProgress(queued_.pop(), files_.direct);
        prepare(index);
    }
}

void UringReader::enter() {
    if (io_uring_sq_ready(ring_.get()) == 0) {
        return;
    }
    const int answer = io_uring_submit(ring_.get());
    // A kernel short of memory takes the entries later: they stay in the ring, and the next poll hands them over again.
    // Any other refusal would mean that the ring is not what we made it.
    LARDER_CHECK(answer >= 0 || answer == -EINTR || answer == -EAGAIN || answer == -EBUSY || answer == -ENOMEM);
}

void UringReader::wait(std::chrono::steady_clock::time_point deadline) {
    constexpr std::chrono::milliseconds longest{10}; // until a wake is seen
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::min<std::chrono::steady_clock::duration>(deadline - std::chrono::steady_clock::now(), longest));
    __kernel_timespec time{0, std::max<int64_t>(left.count(), 1)};
    io_uring_cqe *completion = nullptr;
    io_uring_wait_cqe_timeout(ring_.get(), &completion, &time);
}

size_t UringReader::reap(std::span<ReadResult> results) {
    size_t count = 0;
    io_uring_cqe *completion = nullptr;
    while (count < results.size() && io_uring_peek_cqe(ring_.get(), &completion) == 0) {
        const auto index = static_cast<uint32_t>(completion->user_data);
        const int answer = completion->res;
        io_uring_cqe_seen(ring_.get(), completion);
        LARDER_CHECK(index < under_way_.size());
        ReadProgress &progress = under_way_[index];
        if (!progress.advance(answer)) {
            prepare(index);
            continue;
        }
        files_.drop_cached(progress.request());
        results[count++] = progress.result();
        free_.push_back(index);
    }
    in_flight_ -= count;
    return count;
}

} // namespace larder

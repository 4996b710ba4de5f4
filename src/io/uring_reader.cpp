#include "io/uring_reader.h"

#include "base/check.h"
#include "base/error.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <numeric>

namespace larder {

namespace {

constexpr uint32_t depth_max = 4096; // far more than a disk queues, far less than the kernel's limit

uint32_t places(const ReaderLimits &limits) {
    return std::clamp(std::min(limits.depth, limits.requests_max), 1U, depth_max);
}

Error refused(int error) {
    std::string remedy = "choose the pread backend";
    if (error == EPERM || error == EACCES) {
        remedy = "allow it (kernel.io_uring_disabled, seccomp profile of the container), or " + remedy;
    } else if (error == ENOMEM) {
        remedy = "raise the limit of locked memory (ulimit -l), or " + remedy;
    }
    return Error::from_errno(error, "the kernel refuses io_uring", remedy);
}

// Kernels before 5.6 have io_uring, but neither this operation nor the probe for it.
bool can_read(io_uring *ring) {
    const std::unique_ptr<io_uring_probe, void (*)(io_uring_probe *)> probe(io_uring_get_probe_ring(ring),
                                                                            io_uring_free_probe);
    return probe != nullptr && io_uring_opcode_supported(probe.get(), IORING_OP_READ) != 0;
}

// Some sandboxes allow creating a ring but not entering it. Returns the errno value of the first entry; 0 if it works.
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

UniqueFd make_eventfd() {
    UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd.valid()) {
        throw Error::from_errno(errno, "cannot make an eventfd", "raise the limit of open files (ulimit -n)");
    }
    return fd;
}

} // namespace

Ring::Ring(uint32_t entries, const std::vector<UniqueFd> &fds) {
    // No flags: any thread of the caller may submit and any may reap, and a completion must become visible although the
    // submitting thread does not enter the kernel. That excludes SINGLE_ISSUER, DEFER_TASKRUN and COOP_TASKRUN.
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

UringReader::UringReader(OpenFiles &&files, const ReaderLimits &limits, ReaderInfo info)
    : ring_(places(limits), files.fds), wake_(make_eventfd()), files_(std::move(files)), info_(std::move(info)),
      requests_max_(limits.requests_max), under_way_(places(limits)), free_(under_way_.size()),
      queued_(limits.requests_max) {
    std::iota(free_.rbegin(), free_.rend(), 0U);
}

UringReader::~UringReader() {
    // The kernel writes into the callers' memory until the last completion. Queued requests were never begun.
    while (free_.size() < under_way_.size()) {
        io_uring_cqe *completion = nullptr;
        while (io_uring_peek_cqe(ring_.get(), &completion) == 0) {
            free_.push_back(static_cast<uint32_t>(completion->user_data));
            io_uring_cqe_seen(ring_.get(), completion);
        }
        if (free_.size() < under_way_.size()) {
            (void)wait(Deadline(std::chrono::milliseconds::max()), enter());
        }
    }
}

void UringReader::submit(std::span<const ReadRequest> requests) {
    LARDER_CHECK(requests.size() <= requests_max_ - in_flight_);
    for (const ReadRequest &request : requests) {
        files_.check(request);
        queued_.push(request);
    }
    in_flight_ += requests.size();
    fill_ring();
    (void)enter(); // entries that the kernel does not accept now are submitted in poll()
}

size_t UringReader::poll(std::span<ReadResult> results, std::chrono::milliseconds at_most) {
    size_t count = reap(results);
    fill_ring();
    bool entered = enter();
    if (count > 0 || in_flight_ == 0 || results.empty() || at_most <= std::chrono::milliseconds(0)) {
        return count;
    }
    const Deadline deadline(at_most);
    Event event = Event::completion;
    while (count == 0 && event == Event::completion) {
        event = wait(deadline, entered);
        count = reap(results);
        fill_ring();
        entered = enter();
    }
    return count;
}

void UringReader::wake() noexcept {
    // Fails only if the counter is full, and then the eventfd is readable already.
    (void)::eventfd_write(wake_.get(), 1);
}

void UringReader::prepare(uint32_t index) {
    io_uring_sqe *entry = io_uring_get_sqe(ring_.get());
    LARDER_CHECK(entry != nullptr);
    const ReadProgress &progress = under_way_[index];
    io_uring_prep_read(entry, static_cast<int>(progress.request().file), progress.into(), progress.bytes(),
                       progress.offset());
    io_uring_sqe_set_flags(entry, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(entry, index);
}

void UringReader::fill_ring() {
    while (!queued_.empty() && !free_.empty()) {
        const uint32_t index = free_.back();
        free_.pop_back();
        under_way_[index] = ReadProgress(queued_.pop(), files_.o_direct);
        prepare(index);
    }
}

bool UringReader::enter() {
    if (io_uring_sq_ready(ring_.get()) == 0) {
        return true;
    }
    const int answer = io_uring_submit(ring_.get());
    // Any other error would mean that the ring is not in the state that the constructor made.
    LARDER_CHECK(answer >= 0 || answer == -EINTR || answer == -EAGAIN || answer == -EBUSY || answer == -ENOMEM);
    return io_uring_sq_ready(ring_.get()) == 0;
}

// Waits with poll(2) on the ring and the eventfd instead of io_uring_enter(): a wake needs no entry in the ring, and
// time-outs work alike on all kernels.
UringReader::Event UringReader::wait(const Deadline &deadline, bool entered) {
    std::array<pollfd, 2> fds = {{{ring_.get()->ring_fd, POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    const int ms_left = deadline.ms_left();
    // Entries that the kernel did not accept are submitted again soon, because there may be no other completion.
    constexpr int ms_until_retry = 1;
    const int answer = ::poll(fds.data(), fds.size(), entered ? ms_left : std::min(ms_left, ms_until_retry));
    LARDER_CHECK(answer >= 0 || errno == EINTR || errno == ENOMEM || errno == EAGAIN);
    if (answer > 0 && (fds[1].revents & POLLIN) != 0) {
        eventfd_t wakes = 0;
        (void)::eventfd_read(wake_.get(), &wakes);
        return Event::woken;
    }
    return answer == 0 && deadline.ms_left() == 0 ? Event::time_out : Event::completion;
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
        if (!progress.advance(answer, [&] { return files_.bytes_now(progress.request().file); })) {
            prepare(index);
            continue;
        }
        files_.drop_behind(progress.request());
        results[count++] = progress.result();
        free_.push_back(index);
    }
    in_flight_ -= count;
    return count;
}

} // namespace larder

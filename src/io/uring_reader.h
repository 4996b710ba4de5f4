// uring_reader.h — a Reader on io_uring: a batch is one system call, and nobody but the caller's threads does any work.
#pragma once

#include "io/open_files.h"
#include "io/queue.h"
#include "io/read_progress.h"

#include <liburing.h>

#include <atomic>
#include <vector>

namespace larder {

// An io_uring with the files registered. Throws Error(io) where the kernel refuses it.
class Ring {
  public:
    Ring(uint32_t entries, const std::vector<UniqueFd> &fds);
    ~Ring();
    Ring(const Ring &) = delete;
    Ring &operator=(const Ring &) = delete;

    [[nodiscard]] io_uring *get() { return &ring_; }

  private:
    io_uring ring_{};
};

class UringReader final : public Reader {
  public:
    // Throws Error(io) and leaves `files` as they were if the kernel refuses io_uring.
    UringReader(OpenFiles &&files, uint32_t depth, ReaderInfo info);
    ~UringReader() override;
    UringReader(const UringReader &) = delete;
    UringReader &operator=(const UringReader &) = delete;

    void submit(std::span<const ReadRequest> requests) override;
    size_t poll(std::span<ReadResult> results, std::chrono::milliseconds at_most) override;
    void wake() noexcept override;
    [[nodiscard]] size_t in_flight() const override { return in_flight_; }
    [[nodiscard]] const ReaderInfo &info() const override { return info_; }

  private:
    // The queue entry of the next read of this request.
    void prepare(uint32_t index);
    // Moves requests from the queue into free places of the kernel's.
    void start_queued();
    // Hands prepared entries to the kernel.
    void enter();
    // Sleeps until there is a completion, the deadline, or a wake.
    void wait(std::chrono::steady_clock::time_point deadline);
    // Moves completions into `results` and prepares the next read of those that came up short.
    size_t reap(std::span<ReadResult> results);

    // Reads under way never outnumber under_way_, and each has one entry in the rings: so neither ring can overflow.
    Ring ring_; // before files_: it may throw, and then the caller still needs them
    const OpenFiles files_;
    const ReaderInfo info_;
    std::vector<ReadProgress> under_way_;
    std::vector<uint32_t> free_; // places of under_way_ not in use
    Queue<ReadRequest> queued_;
    size_t in_flight_ = 0;
    std::atomic<bool> woken_{false};
};

} // namespace larder

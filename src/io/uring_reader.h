// uring_reader.h — a Reader on io_uring. A batch of reads is one system call, and the Reader has no threads of its own
// (private to io).
#pragma once

#include "io/deadline.h"
#include "io/open_files.h"
#include "io/queue.h"
#include "io/read_progress.h"

#include <liburing.h>

#include <vector>

namespace larder {

// An io_uring with registered files. Throws Error(io) if the kernel refuses it.
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
    // Throws Error(io) and leaves `files` unchanged if the kernel refuses io_uring.
    UringReader(OpenFiles &&files, const ReaderLimits &limits, ReaderInfo info);
    ~UringReader() override;
    UringReader(const UringReader &) = delete;
    UringReader &operator=(const UringReader &) = delete;

    void submit(std::span<const ReadRequest> requests) override;
    size_t poll(std::span<ReadResult> results, std::chrono::milliseconds at_most) override;
    void wake() noexcept override;
    [[nodiscard]] size_t in_flight() const override { return in_flight_; }
    [[nodiscard]] const ReaderInfo &info() const override { return info_; }
    [[nodiscard]] FileIdentity identity(uint32_t file) const override { return files_.identity(file); }

  private:
    // Writes the ring entry for the next read of the request.
    void prepare(uint32_t index);
    // Moves requests from the queue into free places of under_way_, and prepares their first reads.
    void fill_ring();
    // Submits prepared entries to the kernel. False if the kernel is short of memory: the rest stays in the ring.
    bool enter();
    // Moves completions into `results`, and prepares the next read of requests that need one.
    size_t reap(std::span<ReadResult> results);
    enum class Event { completion, woken, time_out };
    // Blocks until there is a completion, a wake or the deadline.
    Event wait(const Deadline &deadline, bool entered);

    // At most under_way_.size() reads are in progress, each with one entry in each ring, so no ring can overflow.
    Ring ring_;     // before files_: its constructor may throw, and the caller then still needs the files
    UniqueFd wake_; // an eventfd, readable from a wake() until a poll() has returned for it
    const OpenFiles files_;
    const ReaderInfo info_;
    const uint32_t requests_max_;
    std::vector<ReadProgress> under_way_;
    std::vector<uint32_t> free_; // unused places of under_way_
    Queue<ReadRequest> queued_;
    size_t in_flight_ = 0;
};

} // namespace larder

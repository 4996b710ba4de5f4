// pread_reader.h — a Reader whose threads each run one pread() at a time, for kernels that refuse io_uring (private to
// io).
#pragma once

#include "io/open_files.h"
#include "io/queue.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace larder {

class PreadReader final : public Reader {
  public:
    // Starts `depth` threads, at most threads_max. Throws Error(io) if no thread can be started.
    PreadReader(OpenFiles &&files, const ReaderLimits &limits, ReaderInfo info);
    ~PreadReader() override;
    PreadReader(const PreadReader &) = delete;
    PreadReader &operator=(const PreadReader &) = delete;

    void submit(std::span<const ReadRequest> requests) override;
    size_t poll(std::span<ReadResult> results, std::chrono::milliseconds at_most) override;
    void wake() noexcept override;
    [[nodiscard]] size_t in_flight() const override;
    [[nodiscard]] const ReaderInfo &info() const override { return info_; }
    [[nodiscard]] FileIdentity identity(uint32_t file) const override { return files_.identity(file); }

  private:
    // Each thread has one read in progress. Sixteen reads of half a megabyte keep a disk busy.
    static constexpr uint32_t threads_max = 16;

    void work();
    [[nodiscard]] ReadResult read(const ReadRequest &request) const;

    const OpenFiles files_;
    const ReaderInfo info_;
    const uint32_t requests_max_;

    mutable std::mutex mutex_;
    std::condition_variable work_; // queued_ is not empty, or stopping_
    std::condition_variable done_; // finished_ is not empty, or woken_
    Queue<ReadRequest> queued_;
    Queue<ReadResult> finished_;
    size_t in_flight_ = 0;
    bool woken_ = false; // a wake() for which no poll() has returned yet
    bool stopping_ = false;

    std::vector<std::thread> threads_;
};

} // namespace larder

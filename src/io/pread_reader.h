// pread_reader.h — a Reader of threads that each make one pread() at a time, for kernels that refuse io_uring.
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
    // As many threads as `depth` asks for, at most threads_max: a thread is a read under way in the kernel, and sixteen
    // reads of half a megabyte keep a disk busy. Throws Error(io) if not a single thread can be had.
    PreadReader(OpenFiles &&files, uint32_t depth, ReaderInfo info);
    ~PreadReader() override;
    PreadReader(const PreadReader &) = delete;
    PreadReader &operator=(const PreadReader &) = delete;

    void submit(std::span<const ReadRequest> requests) override;
    size_t poll(std::span<ReadResult> results, std::chrono::milliseconds at_most) override;
    void wake() noexcept override;
    [[nodiscard]] size_t in_flight() const override;
    [[nodiscard]] const ReaderInfo &info() const override { return info_; }

  private:
    static constexpr uint32_t threads_max = 16;

    void work();
    [[nodiscard]] ReadResult read(const ReadRequest &request) const;

    const OpenFiles files_;
    const ReaderInfo info_;

    mutable std::mutex mutex_;
    std::condition_variable work_; // queued_ is not empty, or stopping_
    std::condition_variable done_; // finished_ is not empty
    Queue<ReadRequest> queued_;
    Queue<ReadResult> finished_;
    size_t in_flight_ = 0;
    bool stopping_ = false;
    bool woken_ = false;

    std::vector<std::thread> threads_;
};

} // namespace larder

// prefault.h — touches an arena's memory before the first reads need it.
//
// The kernel clears a page when it is first touched. On a virtual machine whose host must first find the memory this
// takes far longer. Without this class the compute threads would pay for it while they submit reads. A thread of idle
// priority touches the arena from its beginning, which is the order in which slots are first used, while resident
// weights are still being read. It yields to any other thread that needs the core.
//
// Threads: owns one thread. The memory must outlive the object. stop() and the destructor wait until the thread has
// ended, which takes at most the time of one huge page.
#pragma once

#include <cstdint>
#include <mutex>
#include <thread>

namespace larder {

class Prefault {
  public:
    Prefault(char *base, uint64_t bytes)
        : thread_([base, bytes](const std::stop_token &stop) { touch(base, bytes, stop); }) {}

    // After it returns, nothing is touched any more. Any thread.
    void stop();

  private:
    static void touch(char *base, uint64_t bytes, const std::stop_token &stop);

    std::mutex mutex_; // of stop()
    std::jthread thread_;
};

} // namespace larder

// prefault.h — lets the kernel hand out an arena's memory before the first reads want it.
//
// A page costs its zeroing when it is first touched, and far more on a virtual machine whose host must find the memory
// first. Left to the reads, compute threads pay it while they hand requests to the kernel. A thread of idle
// priority touches the arena from its beginning, in the order in which slots are first used, while resident weights are
// still being read, and stops for whoever else wants the core.
//
// Threads: its own. The memory must outlive the object; stop() and the destructor wait until the thread has ended,
// which it does within one huge page.
#pragma once

#include <cstdint>
#include <thread>

namespace larder {

class Prefault {
  public:
    Prefault(char *base, uint64_t bytes)
        : thread_([base, bytes](const std::stop_token &stop) { touch(base, bytes, stop); }) {}

    // Nothing is touched any more when it returns. From one thread at a time.
    void stop() {
        if (thread_.joinable()) {
            thread_.request_stop();
            thread_.join();
        }
    }

  private:
    static void touch(char *base, uint64_t bytes, const std::stop_token &stop);

    std::jthread thread_;
};

} // namespace larder

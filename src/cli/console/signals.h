// signals.h — Ctrl-C, SIGTERM and SIGUSR2, handled on a thread of their own instead of in handlers.
//
//   Ctrl-C while an answer is being made   stops the answer
//   Ctrl-C otherwise, and SIGTERM          ends the program, in order
//   Ctrl-C again before that happened      ends it at once
//   SIGUSR2                                writes the stats file
//
// Make one before any other thread: it blocks the signals for all threads made later.
#pragma once

#include "base/unique_fd.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace larder {

class Signals {
  public:
    Signals();
    ~Signals();
    Signals(const Signals &) = delete;
    Signals &operator=(const Signals &) = delete;

    // What to do; called on the signal thread. Until they are set (and after they are cleared) nothing is done.
    void set_handlers(std::function<void()> stop_answer, std::function<void()> write_stats);
    void clear_handlers() { set_handlers({}, {}); }

    // True between these calls Ctrl-C stops the answer; otherwise it ends the program.
    void answer_begins();
    void answer_ends();

    [[nodiscard]] bool quit_requested() const { return quit_; }

    // One line of standard input without its newline. False at its end, or when the program shall end.
    bool read_line(std::string &line);

  private:
    void run();
    void on_interrupt();
    void on_terminate();

    UniqueFd signal_fd_;
    UniqueFd wake_input_;  // eventfd: read_line() shall return
    UniqueFd wake_thread_; // eventfd: the signal thread shall end
    std::atomic<bool> answering_{false};
    std::atomic<bool> stopping_{false};
    std::atomic<bool> quit_{false};
    std::mutex handlers_mutex_;
    std::function<void()> stop_answer_; // guarded by handlers_mutex_
    std::function<void()> write_stats_; // guarded by handlers_mutex_
    std::string input_;                 // read but not yet handed out
    std::thread thread_;
};

} // namespace larder

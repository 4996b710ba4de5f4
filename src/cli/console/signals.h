// signals.h — Ctrl-C, SIGTERM and SIGUSR2, handled on a thread of their own instead of in handlers.
//
//   Ctrl-C while an answer is being made   stops the answer
//   Ctrl-C otherwise, and SIGTERM          ends the program, in order
//   either again before that happened      ends it at once
//   SIGUSR2                                writes the stats file
//
// Make one before any other thread: it blocks the signals for all threads made later.
#pragma once

#include "base/unique_fd.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace larder {

// The exit code of what a signal has ended: 128 + SIGINT, as shells report it.
inline constexpr int exit_interrupted = 130;

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

    enum class Line { text, too_long, end };
    // One line of standard input without its newline. A line of more than `bytes_max` is skipped, and `line` is empty.
    // `end`: of the input, of a line that does not end, or the program shall end.
    Line read_line(std::string &line, uint64_t bytes_max);

  private:
    bool read_input(); // false: there is no more
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
    bool input_ended_ = false;
    std::thread thread_;
};

} // namespace larder

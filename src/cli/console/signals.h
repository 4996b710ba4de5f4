// signals.h — handles Ctrl-C, SIGTERM and SIGUSR2 on a thread, not in signal handlers.
//
//   Ctrl-C during an answer             stops the answer
//   Ctrl-C otherwise, and SIGTERM       ends the program in order
//   the same again before it has ended  ends the program at once
//   SIGUSR2                             writes the stats file
//
// Construct it before any other thread starts: it blocks the signals for all threads created later.
#pragma once

#include "base/unique_fd.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace larder {

// The exit code of a command that a signal ended: 128 + SIGINT, as in shells.
inline constexpr int exit_interrupted = 130;

class Signals {
  public:
    Signals();
    ~Signals();
    Signals(const Signals &) = delete;
    Signals &operator=(const Signals &) = delete;

    // The actions, called on the signal thread. Before they are set, and after clear_handlers(), nothing is called.
    void set_handlers(std::function<void()> stop_answer, std::function<void()> write_stats);
    void clear_handlers() { set_handlers({}, {}); }

    // Between these calls, Ctrl-C stops the answer. Otherwise it ends the program.
    void answer_begins();
    void answer_ends();

    [[nodiscard]] bool quit_requested() const { return quit_; }

    enum class Line { text, too_long, end };
    // Reads one line of standard input, without its newline. A line of more than `bytes_max` bytes is skipped, and
    // `line` is empty. `end`: the input has ended, a line has no end, or the program must end.
    Line read_line(std::string &line, uint64_t bytes_max);

  private:
    bool read_input(); // returns false at the end of the input
    void run();
    void on_interrupt();
    void on_terminate();

    UniqueFd signal_fd_;
    UniqueFd wake_input_;  // eventfd: makes read_line() return
    UniqueFd wake_thread_; // eventfd: ends the signal thread
    std::atomic<bool> answering_{false};
    std::atomic<bool> stopping_{false};
    std::atomic<bool> quit_{false};
    std::mutex handlers_mutex_;
    std::function<void()> stop_answer_; // guarded by handlers_mutex_
    std::function<void()> write_stats_; // guarded by handlers_mutex_
    std::string input_;                 // read, but not returned yet
    bool input_ended_ = false;
    std::thread thread_;
};

} // namespace larder

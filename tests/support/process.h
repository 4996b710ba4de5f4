// process.h — runs the larder program like a user, and collects its output.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace larder::test {

struct Finished {
    int exit_code = -1; // 128 + signal if a signal killed it
    std::string out;
    std::string err;
};

// A running program whose standard input is a pipe. Its output is collected while one of the wait functions runs.
class Process {
  public:
    // `cgroup_procs`: the cgroup.procs file of the group that the process joins before it starts; empty for none.
    explicit Process(const std::vector<std::string> &argv, const std::string &cgroup_procs = {});
    ~Process();
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;

    [[nodiscard]] pid_t pid() const { return pid_; }
    void type(const std::string &text); // writes to its standard input
    void end_input();
    void signal(int number) const;
    // Wait until the program has printed the text, lines or bytes. False if it ended, or a minute passed, before.
    bool wait_for_error(const std::string &text);
    bool wait_for_output_lines(size_t lines);
    bool wait_for_output_bytes(size_t bytes);
    Finished wait(); // closes its input and waits until it ends
    Finished wait_with_open_input();

  private:
    bool read_some(int timeout_ms); // false when both streams have ended
    bool wait_until(const std::function<bool()> &condition);

    pid_t pid_ = -1;
    int in_ = -1;
    int out_ = -1;
    int err_ = -1;
    Finished so_far_;
};

// Runs a program to its end with empty input.
Finished run(const std::vector<std::string> &argv, const std::string &cgroup_procs = {});
// Runs the larder program that was built with the tests.
Finished larder(std::vector<std::string> arguments, const std::string &cgroup_procs = {});
// The same as a user who may have no other process or thread. Requires root, and read permission for the program for
// other users; otherwise the exit code is 126 or 127.
Finished larder_without_threads(std::vector<std::string> arguments);

} // namespace larder::test

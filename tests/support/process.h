// process.h — runs the larder program as a user would, and sees what it prints.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace larder::test {

struct Finished {
    int exit_code = -1; // 128 + signal if it was killed by one
    std::string out;
    std::string err;
};

// A running program whose standard input is a pipe. Its output is collected in the background until it is waited for.
class Process {
  public:
    // `cgroup_procs`: a cgroup.procs file that the process joins before it starts; empty for none.
    explicit Process(const std::vector<std::string> &argv, const std::string &cgroup_procs = {});
    ~Process();
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;

    [[nodiscard]] pid_t pid() const { return pid_; }
    void type(const std::string &text); // to its standard input
    void end_input();
    void signal(int number) const;
    // These wait until it has printed what is asked for; false if it ended, or a minute passed, without.
    bool wait_for_error(const std::string &text);
    bool wait_for_output_lines(size_t lines);
    bool wait_for_output_bytes(size_t bytes);
    Finished wait(); // ends its input and waits for its end
    Finished wait_with_open_input();

  private:
    bool read_some(int timeout_ms); // false when both streams are at their end
    bool wait_until(const std::function<bool()> &condition);

    pid_t pid_ = -1;
    int in_ = -1;
    int out_ = -1;
    int err_ = -1;
    Finished so_far_;
};

// Runs to the end with nothing to read.
Finished run(const std::vector<std::string> &argv, const std::string &cgroup_procs = {});
// Runs the larder program built beside the tests.
Finished larder(std::vector<std::string> arguments, const std::string &cgroup_procs = {});
// The same as a user who may have no other process or thread than it. Only root can do so, and only where others may
// read the program; the exit code is 126 or 127 elsewhere.
Finished larder_without_threads(std::vector<std::string> arguments);

} // namespace larder::test

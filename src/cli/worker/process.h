// process.h — another larder process: a text is its standard input, its standard output is read line by line.
#pragma once

#include "base/unique_fd.h"

#include <sys/types.h>

#include <string>
#include <vector>

namespace larder {

class Process {
  public:
    // Starts this very program with `arguments`. Its standard error is ours. Throws Error(io).
    Process(const std::vector<std::string> &arguments, const std::string &input);
    ~Process(); // ends it if it still runs; so does our own end, however it comes
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;

    // The next line of its output without the newline; false at the end.
    bool read_line(std::string &line);
    // Asks it to end. Any thread, while no other one is in wait().
    void terminate() const;
    // Waits for its end. Its exit code, or 128 + the signal that killed it.
    int wait();

  private:
    pid_t pid_ = -1;
    UniqueFd output_;
    std::string pending_;
};

} // namespace larder

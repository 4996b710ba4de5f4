// process.h — runs another larder process: a text is its standard input; its standard output is read line by line.
#pragma once

#include "base/unique_fd.h"

#include <sys/types.h>

#include <string>
#include <vector>

namespace larder {

class Process {
  public:
    // Starts this program with `arguments`. The child inherits standard error. Throws Error(io).
    Process(const std::vector<std::string> &arguments, const std::string &input);
    ~Process(); // ends the child if it still runs; it also ends when this process ends in any way
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;

    // The next line of the child's output, without the newline. Returns false at the end.
    bool read_line(std::string &line);
    // Asks the child to end. Any thread, unless another thread is in wait().
    void terminate() const;
    // Waits until the child ends. Returns its exit code, or 128 + the signal that ended it.
    int wait();

  private:
    pid_t pid_ = -1;
    UniqueFd output_;
    std::string pending_;
};

} // namespace larder

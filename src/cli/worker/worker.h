// worker.h — starts a larder process that runs a task (task.h), and reads its results.
//
// Threads: one, except terminate().
#pragma once

#include "base/error.h"
#include "cli/worker/process.h"
#include "cli/worker/task.h"

#include <optional>
#include <string>

namespace larder {

// How a worker ended.
struct WorkerEnd {
    int exit_code = 0;        // or 128 + the signal that ended it
    bool interrupted = false; // by Ctrl-C or SIGTERM, which is meant for the whole process group
    // The reported error, or how the worker ended if it reported none; empty if the task succeeded.
    std::optional<Error> error;
};

class Worker {
  public:
    // `job`: the arguments of the task. Throws Error(io) if no process can be started.
    Worker(const std::string &task, Json job);

    // The next result; empty at the end. Does not return the error.
    std::optional<Json> next();
    // Asks the worker to end. Any thread, unless another thread is in wait().
    void terminate() const { process_.terminate(); }
    WorkerEnd wait();

  private:
    Process process_;
    std::optional<Error> told_;
};

} // namespace larder

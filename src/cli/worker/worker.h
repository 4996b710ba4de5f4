// worker.h — another larder process at a task (task.h), as the process sees it that started it.
//
// Threads: one, but terminate().
#pragma once

#include "base/error.h"
#include "cli/worker/process.h"
#include "cli/worker/task.h"

#include <optional>
#include <string>

namespace larder {

// How a worker ended.
struct WorkerEnd {
    int exit_code = 0;          // or 128 + the signal that ended it
    bool interrupted = false;   // by Ctrl-C or SIGTERM, which somebody meant for all of the processes
    std::optional<Error> error; // what it told, or how it ended where it told nothing; none if it did its task
};

class Worker {
  public:
    // `job` is the task's. Throws Error(io) if no process can be started.
    Worker(const std::string &task, Json job);

    // The next object it tells; none at the end. An error is not among them.
    std::optional<Json> next();
    // Asks it to end. Any thread, while no other one is in wait().
    void terminate() const { process_.terminate(); }
    WorkerEnd wait();

  private:
    Process process_;
    std::optional<Error> told_;
};

} // namespace larder

// text_process.h — a process that runs llama.cpp on untrusted texts.
//
// A chat template is a program inside a file, and a program turns a JSON schema into a grammar. Both may recurse, loop
// and allocate without bound, and llama.cpp limits neither. So a process is forked early, while this one is small and
// has few threads. For each job it forks a child with limits on memory, stack and processor time, which exits after its
// answer. The child cannot affect this process. Forking from so small a process takes less than a millisecond.
//
// The process ends when this one ends. It holds none of this process's files and ignores Ctrl-C.
// Threads: any; jobs of several threads run at the same time.
// Units: bytes, milliseconds.
#pragma once

#include "base/bytes.h"

#include <cstdint>
#include <functional>
#include <string>

namespace larder {

// Memory of the process, besides the file pages that it shares with this one.
inline constexpr uint64_t text_process_bytes = 2 * MiB;

// Starts the process if it does not run yet. Call it before a model is loaded: a fork copies the page tables of this
// process and keeps its current pages. Throws Error(io) if no process can be started.
void start_text_process();

// Limits of one job.
struct JobLimits {
    uint64_t memory_bytes = 64 * MiB; // heap
    uint64_t stack_bytes = 4 * MiB;
    uint64_t cpu_ms = 10000;
    uint64_t result_bytes = 64 * MiB;
};

enum class JobEnd {
    done,
    refused,   // the job refused the request; `text` is its reason
    memory,    // exceeded memory_bytes
    stack,     // exceeded stack_bytes
    processor, // exceeded cpu_ms, or did not answer for long
    large,     // the result exceeds result_bytes
    crashed,   // ended by a signal or by an assertion of llama.cpp
    stopped,   // stopped by `stop`
};

struct JobResult {
    JobEnd end = JobEnd::crashed;
    std::string text; // the result if done; the reason if refused
};

// Runs in the child, with the request as its argument. Throws std::exception to refuse.
using Job = std::string (*)(const std::string &request);

// Runs the job on the request, and starts the process if necessary. `stop` is polled some times a second and may be
// empty. Throws Error(io) if no process can be started.
JobResult run_job(Job job, const std::string &request, const JobLimits &limits, const std::function<bool()> &stop = {});

} // namespace larder

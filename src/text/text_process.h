// text_process.h — a process in which llama.cpp works on texts that it may not survive.
//
// A chat template is a program that comes with a file, and a JSON schema becomes a grammar by a program: both may
// recurse, loop and allocate without end, and llama.cpp has no limit for either. So a small process is forked off
// early, while this one is small and has few threads. For each job it forks a child, which has limits on memory, stack
// and processor time, and is gone with its answer. Nothing it does can reach this process. A fork of so small a process
// takes less than a millisecond.
//
// The process ends when this one ends. It holds no file of this process and ignores Ctrl-C.
// Threads: any; jobs of several threads run side by side.
// Units: bytes, milliseconds.
#pragma once

#include "base/bytes.h"

#include <cstdint>
#include <functional>
#include <string>

namespace larder {

// What the process takes in memory as long as it lives, besides the pages of files that it shares with this one.
inline constexpr uint64_t text_process_bytes = 2 * MiB;

// Starts the process, if it does not run yet. Call it before a model is loaded: a fork copies the page tables of this
// process, and keeps the pages that it holds then. Throws Error(io) if no process can be started.
void start_text_process();

// What a job may take.
struct JobLimits {
    uint64_t memory_bytes = 64 * MiB; // heap
    uint64_t stack_bytes = 4 * MiB;
    uint64_t cpu_ms = 10000;
    uint64_t result_bytes = 64 * MiB;
};

enum class JobEnd {
    done,
    refused,   // by the job itself: its text says why
    memory,    // more than memory_bytes
    stack,     // more than stack_bytes
    processor, // more than cpu_ms, or no answer for long
    large,     // a result of more than result_bytes
    crashed,   // a signal, or an assertion of llama.cpp
    stopped,   // by `stop`
};

struct JobResult {
    JobEnd end = JobEnd::crashed;
    std::string text; // of a job that is done, its result; of one that refused, its reason
};

// Runs in the child. Its argument is the request. Throws std::exception to refuse.
using Job = std::string (*)(const std::string &request);

// Runs the job on the request, and starts the process if need be. `stop` may be empty; it is asked some times a second.
// Throws Error(io) if no process can be started.
JobResult run_job(Job job, const std::string &request, const JobLimits &limits, const std::function<bool()> &stop = {});

} // namespace larder

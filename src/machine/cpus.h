// cpus.h — the processors that this process may use, and the default number of threads.
//
// Threads: any. `root` is prepended to /proc and /sys, for tests.
#pragma once

#include <cstdint>
#include <string>

namespace larder {

struct Cpus {
    uint32_t cores = 1;        // physical cores of the machine; only performance cores on a hybrid processor
    uint32_t usable_cores = 1; // those with a processor in this process's affinity mask (taskset, cpusets)
    uint32_t processors = 1;   // logical processors in the mask, at most `quota`
    // The smallest CPU quota of this process's cgroup and its ancestors (v1 and v2), in whole processors: rounded down,
    // at least 1. 0: no quota. The fraction is left unused because a thread that the kernel throttles delays all others
    // at the next barrier.
    uint32_t quota = 0;
    std::string quota_cgroup; // the cgroup that sets the quota: "/a/b"

    // The default number of compute threads: one for each usable core, at most `quota`.
    [[nodiscard]] uint32_t default_threads() const;
    // Why default_threads() is less than `cores`: "CPU quota of cgroup /a" or "CPU affinity". Empty if it is not less.
    [[nodiscard]] std::string bound_by() const;
};

Cpus usable_cpus(const std::string &root = "");

} // namespace larder

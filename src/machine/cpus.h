// cpus.h — the processors that this process may use, and the threads that are worth starting on them.
//
// Threads: any. `root` stands before /proc and /sys, for tests.
#pragma once

#include <cstdint>
#include <string>

namespace larder {

struct Cpus {
    uint32_t cores = 1;        // physical cores of the machine; its performance cores, where it has two kinds
    uint32_t usable_cores = 1; // of them, those with a processor in this process's affinity mask (taskset, cpusets)
    uint32_t processors = 1;   // logical processors in the mask, but no more than the quota
    // Whole processors of the smallest CPU quota of its cgroup and all ancestors (v1 and v2), rounded down, at least 1;
    // 0: there is none. A thread that the kernel stops for the quota holds up all others at the next barrier, so a part
    // of a processor is left unused.
    uint32_t quota = 0;
    std::string quota_cgroup; // that sets it: "/a/b"

    // The compute threads to start where the user names no number: a thread for each usable core, within the quota.
    [[nodiscard]] uint32_t default_threads() const;
    // Why these are fewer than the machine's cores: "CPU quota of cgroup /a", "CPU affinity"; empty if they are not.
    [[nodiscard]] std::string bound_by() const;
};

Cpus usable_cpus(const std::string &root = "");

} // namespace larder

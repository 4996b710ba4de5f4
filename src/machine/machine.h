// machine.h — how much memory this process may use now, and what bounds it.
//
// Units: bytes. Threads: any. `root` stands before /proc and /sys, for tests.
#pragma once

#include "machine/memory_claims.h"

#include <cstdint>
#include <span>
#include <string>

namespace larder {

struct Machine {
    uint64_t usable_bytes = 0;
    std::string source; // "MemAvailable", "cgroup memory.limit_in_bytes of /a/b", "RLIMIT_DATA (ulimit -d)"
    // Where a limit of addresses bounds it: the limit's name in a shell, and how much of it is not memory.
    std::string ulimit{};
    uint64_t idle_bytes = 0;
    // Of usable_bytes, what other larder processes have planned to take and do not hold yet.
    uint64_t claimed_bytes = 0;

    [[nodiscard]] uint64_t unclaimed_bytes() const { return usable_bytes - claimed_bytes; }
};

// The minimum of MemAvailable (plus what this process already holds) and the limits of its cgroup and of all ancestors
// (v1 and v2; memory.max, memory.high), less what others in the group use; page cache that the kernel can take back
// does not count as used. A claim counts where its process is bound by the same limit. Take `claims` before this call,
// so that what a claimant takes meanwhile is counted twice rather than not at all.
Machine probe_memory(const std::string &root = "", std::span<const MemoryClaim> claims = {});

// The same within RLIMIT_DATA and RLIMIT_AS, less the addresses that are mapped and not in RAM now (address_limits.h).
// Addresses that a model will map are known to the engine's planner only.
Machine probe_machine(const std::string &root = "", std::span<const MemoryClaim> claims = {});

} // namespace larder

// machine.h — how much memory this process may use now, and which limit determines it.
//
// Units: bytes. Threads: any. `root` is prepended to /proc and /sys, for tests.
#pragma once

#include "machine/memory_claims.h"

#include <cstdint>
#include <span>
#include <string>

namespace larder {

struct Machine {
    uint64_t usable_bytes = 0;
    std::string source; // "MemAvailable", "cgroup memory.limit_in_bytes of /a/b", "RLIMIT_DATA (ulimit -d)"
    // If a limit of the address space determines usable_bytes: its shell command, and how many of the addresses are not
    // memory.
    std::string ulimit{};
    uint64_t idle_bytes = 0;
    // The part of usable_bytes that other larder processes have planned to use but do not hold yet.
    uint64_t claimed_bytes = 0;
    // Memory that a cgroup is charged for and that no process has yet: pages that the kernel is still clearing. Counted
    // as used by others. Many workers on a busy machine can have tens of MiB of them.
    uint64_t uncounted_bytes = 0;

    [[nodiscard]] uint64_t unclaimed_bytes() const { return usable_bytes - claimed_bytes; }
};

// The minimum of MemAvailable (plus the memory that this process and its counted children already hold) and of the
// limits of its cgroup and all ancestors (v1 and v2; memory.max, memory.high), less the memory that other processes of
// the group use. Reclaimable page cache does not count as used. A claim counts for a limit if its process is subject to
// that limit. Read `claims` before this call: memory that a claimant allocates in between is then counted twice rather
// than not at all.
Machine probe_memory(const std::string &root = "", std::span<const MemoryClaim> claims = {});

// The same, also bounded by RLIMIT_DATA and RLIMIT_AS, less the addresses that are mapped but not in RAM now
// (address_limits.h). Addresses that a model will map are known only to the runtime's planner.
Machine probe_machine(const std::string &root = "", std::span<const MemoryClaim> claims = {});

} // namespace larder

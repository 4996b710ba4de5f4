// Computes how much memory this process may use.
#include "base/bytes.h"
#include "machine/address_limits.h"
#include "machine/cgroups.h"
#include "machine/machine.h"
#include "machine/proc_files.h"
#include "machine/process_memory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

namespace larder {

namespace {

// The usable bytes and the unclaimed bytes are each the minimum over all bounds. The two minima may come from different
// bounds.
void bound(Machine &machine, uint64_t usable_bytes, uint64_t claimed_bytes, const std::string &source) {
    const uint64_t unclaimed =
        std::min(machine.unclaimed_bytes(), usable_bytes - std::min(usable_bytes, claimed_bytes));
    if (usable_bytes < machine.usable_bytes) {
        machine.usable_bytes = usable_bytes;
        machine.source = source;
    }
    machine.claimed_bytes = machine.usable_bytes - std::min(machine.usable_bytes, unclaimed);
}

Machine available(const std::string &root, std::span<const MemoryClaim> claims) {
    Machine machine;
    const auto available_kib = KeyedFile(root + "/proc/meminfo").find("MemAvailable");
    if (available_kib) {
        machine = {*available_kib * KiB + held_bytes(root), "MemAvailable"};
    } else {
        const long pages = ::sysconf(_SC_PHYS_PAGES);
        const long page_bytes = ::sysconf(_SC_PAGESIZE);
        machine = {static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes), "physical memory"};
    }
    uint64_t claimed = 0;
    for (const MemoryClaim &claim : claims) {
        claimed += claim.missing_bytes;
    }
    machine.claimed_bytes = std::min(claimed, machine.usable_bytes);
    return machine;
}

// The kernel reclaims page cache before it kills a process, but it cannot reclaim the other memory of other processes.
uint64_t usable_of(uint64_t limit, uint64_t used, uint64_t reclaimable, uint64_t own) {
    const uint64_t mine = own + reclaimable;
    const uint64_t others = used - std::min(used, mine);
    return limit - std::min(limit, others);
}

// The names in memory.stat of the same figures in both versions.
struct StatNames {
    std::array<const char *, 2> reclaimable{}; // of the group and its descendants
    // The usage is the sum of these, plus memory that is charged in advance. Version 1 has one more part in a file of
    // its own.
    std::array<const char *, 4> parts{};
    const char *part_file = nullptr;
};
constexpr StatNames names_v1 = {{"total_inactive_file", "total_active_file"},
                                {"total_rss", "total_cache", nullptr, nullptr},
                                "memory.kmem.usage_in_bytes"};
constexpr StatNames names_v2 = {{"inactive_file", "active_file"}, {"anon", "file", "kernel", "sock"}, nullptr};

// The kernel charges a group for up to 64 pages per processor in advance. No process holds them, and the kernel returns
// them before it kills a process. With a budget of some ten MiB they exceed the tolerance of the plan. The kernel's
// figures can briefly differ by as much, so the difference is capped at this value.
constexpr uint64_t precharged_bytes_per_cpu = 256 * KiB;

// What the group is charged for beyond the parts that its statistics list; 0 if the kernel does not report them.
uint64_t unlisted_of(const StatNames &names, const Cgroup &group, const KeyedFile &stat, uint64_t used) {
    uint64_t sum = 0;
    for (const char *key : names.parts) {
        const auto part = key == nullptr ? std::optional<uint64_t>(0) : stat.find(key);
        if (!part) {
            return 0; // this kernel does not report the figure
        }
        sum += *part;
    }
    if (names.part_file != nullptr) {
        const auto part = read_number(group.directory + "/" + names.part_file);
        if (!part) {
            return 0;
        }
        sum += *part;
    }
    return used - std::min(used, sum);
}

uint64_t precharged_of(uint64_t unlisted) {
    const auto cpus = static_cast<uint64_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    return std::min(unlisted, cpus * precharged_bytes_per_cpu);
}

uint64_t claimed_in(const std::string &root, const Cgroup &group, std::span<const MemoryClaim> claims) {
    uint64_t bytes = 0;
    for (const MemoryClaim &claim : claims) {
        bytes += is_member(root, claim.pid, group) ? claim.missing_bytes : 0;
    }
    return bytes;
}

// held_bytes() is read before and after the usage of the group: this process may grow meanwhile, as it fills its arena,
// or shrink, as it frees its read buffers. Neither must count as memory of other processes.
void bound_by_group(Machine &machine, const Cgroup &group, const std::string &root,
                    std::span<const MemoryClaim> claims) {
    const uint64_t own_before = held_bytes(root);
    const StatNames &names = group.version == CgroupVersion::v1 ? names_v1 : names_v2;
    const uint64_t used = read_number(memory_usage_path(group)).value_or(0);
    const KeyedFile stat(group.directory + "/memory.stat");
    const uint64_t unlisted = unlisted_of(names, group, stat, used);
    uint64_t reclaimable = precharged_of(unlisted);
    machine.uncounted_bytes = std::max(machine.uncounted_bytes, unlisted - reclaimable);
    for (const char *key : names.reclaimable) {
        reclaimable += stat.find(key).value_or(0);
    }
    const uint64_t own = std::max(own_before, held_bytes(root));
    const uint64_t claimed = claimed_in(root, group, claims);
    for (const CgroupLimit &limit : memory_limits(group)) {
        bound(machine, usable_of(limit.bytes, used, reclaimable, own), claimed,
              std::string("cgroup ") + limit.file + " of " + group.path);
    }
    // Version 1 reports here the smallest limit of all ancestors, including those that a container cannot see.
    if (const auto inherited = stat.find("hierarchical_memory_limit")) {
        bound(machine, usable_of(*inherited, used, reclaimable, own), claimed, "cgroup limit above " + group.path);
    }
}

} // namespace

Machine probe_memory(const std::string &root, std::span<const MemoryClaim> claims) {
    Machine machine = available(root, claims);
    for (const Cgroup &group : memory_cgroups(root)) {
        bound_by_group(machine, group, root, claims);
    }
    return machine;
}

Machine probe_machine(const std::string &root, std::span<const MemoryClaim> claims) {
    return within_limits(probe_memory(root, claims), address_limits(), idle_addresses(root));
}

} // namespace larder

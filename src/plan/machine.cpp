// What this process may use. Every source is optional: a file that is not there sets no bound.
#include "base/bytes.h"
#include "plan/address_space.h"
#include "plan/plan.h"
#include "plan/proc_files.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

namespace larder {

namespace {

// v1 writes "none" as the largest multiple of a page below 2^63, v2 as "max". No machine has an exbibyte.
constexpr uint64_t unlimited_bytes = uint64_t{1} << 60;

void bound(Machine &machine, uint64_t usable_bytes, const std::string &source) {
    if (usable_bytes < machine.usable_bytes) {
        machine = {usable_bytes, source};
    }
}

// What this process holds that nobody can take from it. Its pages of files are page cache and counted there.
uint64_t own_bytes(const std::string &root) {
    const KeyedFile status(root + "/proc/self/status");
    const auto anonymous = status.find("RssAnon");
    if (!anonymous) {
        return status.find("VmRSS").value_or(0) * KiB; // kernels before 4.5
    }
    return (*anonymous + status.find("RssShmem").value_or(0)) * KiB;
}

Machine available(const std::string &root) {
    const auto available_kib = KeyedFile(root + "/proc/meminfo").find("MemAvailable");
    if (available_kib) {
        return {*available_kib * KiB + own_bytes(root), "MemAvailable"};
    }
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    const long page_bytes = ::sysconf(_SC_PAGESIZE);
    return {static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes), "physical memory"};
}

// The kernel takes back page cache before it kills; but not what others in the group hold otherwise.
uint64_t usable_of(uint64_t limit, uint64_t used, uint64_t reclaimable, uint64_t own) {
    const uint64_t mine = own + reclaimable;
    const uint64_t others = used - std::min(used, mine);
    return limit - std::min(limit, others);
}

// The names of the same things in the two versions.
struct CgroupNames {
    CgroupVersion version = CgroupVersion::v2;
    std::array<const char *, 2> limits{};
    const char *used = "";
    std::array<const char *, 2> reclaimable{}; // in memory.stat, of the group and all below it
    // What `used` is the sum of, but for what is charged beforehand: in memory.stat, and a file of its own.
    std::array<const char *, 4> parts{};
    const char *part_file = nullptr;
};

constexpr std::array<CgroupNames, 2> cgroup_names = {{
    {CgroupVersion::v1,
     {"memory.limit_in_bytes", nullptr},
     "memory.usage_in_bytes",
     {"total_inactive_file", "total_active_file"},
     {"total_rss", "total_cache", nullptr, nullptr},
     "memory.kmem.usage_in_bytes"},
    {CgroupVersion::v2,
     {"memory.max", "memory.high"},
     "memory.current",
     {"inactive_file", "active_file"},
     {"anon", "file", "kernel", "sock"},
     nullptr},
}};

// The kernel charges a group by 64 pages a processor in advance, which nobody holds, and takes that back before it
// kills. On a budget of some ten MiB it is more than what the plan tolerates. Its own figures differ by as much for a
// moment, so no more is believed.
constexpr uint64_t precharged_bytes_per_cpu = 256 * KiB;

uint64_t precharged_of(const CgroupNames &names, const Cgroup &group, const KeyedFile &stat, uint64_t used) {
    uint64_t sum = 0;
    for (const char *key : names.parts) {
        const auto part = key == nullptr ? std::optional<uint64_t>(0) : stat.find(key);
        if (!part) {
            return 0; // a kernel that does not tell
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
    const auto cpus = static_cast<uint64_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    return std::min(used - std::min(used, sum), cpus * precharged_bytes_per_cpu);
}

// What this process holds is read last: while it fills its arena it grows in between, which must not look like memory
// that others hold.
void bound_by_group(Machine &machine, const CgroupNames &names, const Cgroup &group, const std::string &root) {
    const uint64_t used = read_number(group.directory + "/" + names.used).value_or(0);
    const KeyedFile stat(group.directory + "/memory.stat");
    uint64_t reclaimable = 0;
    for (const char *key : names.reclaimable) {
        reclaimable += stat.find(key).value_or(0);
    }
    reclaimable += precharged_of(names, group, stat, used);
    const uint64_t own = own_bytes(root);
    for (const char *name : names.limits) {
        const auto limit = name == nullptr ? std::nullopt : read_number(group.directory + "/" + name);
        if (limit && *limit < unlimited_bytes) {
            bound(machine, usable_of(*limit, used, reclaimable, own),
                  std::string("cgroup ") + name + " of " + group.path);
        }
    }
    // v1 repeats here the smallest limit above, also of ancestors that a container does not see.
    const auto inherited = stat.find("hierarchical_memory_limit");
    if (inherited && *inherited < unlimited_bytes) {
        bound(machine, usable_of(*inherited, used, reclaimable, own), "cgroup limit above " + group.path);
    }
}

void bound_by_cgroups(Machine &machine, const std::string &root) {
    for (const CgroupNames &names : cgroup_names) {
        for (const Cgroup &group : memory_cgroups(root, names.version)) {
            bound_by_group(machine, names, group, root);
        }
    }
}

} // namespace

Machine probe_memory(const std::string &root) {
    Machine machine = available(root);
    bound_by_cgroups(machine, root);
    return machine;
}

Machine probe_machine(const std::string &root) {
    return within_limits(probe_memory(root), address_limits(), idle_addresses(root));
}

} // namespace larder

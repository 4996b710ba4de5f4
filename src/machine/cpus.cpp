#include "machine/cpus.h"

#include "machine/cgroups.h"
#include "machine/proc_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace larder {

namespace {

const std::string cpu_folder = "/sys/devices/system/cpu";

std::vector<uint32_t> common(const std::vector<uint32_t> &a, const std::vector<uint32_t> &b) {
    std::vector<uint32_t> both;
    std::ranges::set_intersection(a, b, std::back_inserter(both));
    return both;
}

std::vector<uint32_t> online(const std::string &root) {
    std::vector<uint32_t> cpus = parse_list(read_text(root + cpu_folder + "/online"));
    const auto n = static_cast<uint32_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    for (uint32_t cpu = 0; cpus.size() < n && root.empty() && cpu < n; cpu++) { // without /sys
        cpus.push_back(cpu);
    }
    return cpus;
}

// Processors with the same list of thread siblings are the threads of one core.
uint32_t count_cores(const std::string &root, const std::vector<uint32_t> &cpus) {
    std::set<std::string> cores;
    for (const uint32_t cpu : cpus) {
        const std::string siblings =
            read_text(fmt::format("{}{}/cpu{}/topology/thread_siblings_list", root, cpu_folder, cpu));
        cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
    }
    return static_cast<uint32_t>(cores.size());
}

// At each barrier the fast cores wait for the slow ones. On Intel's hybrid processors the kernel lists the fast cores
// in this file; on other processors the file does not exist.
std::vector<uint32_t> without_efficiency_cores(const std::string &root, const std::vector<uint32_t> &cpus) {
    const std::vector<uint32_t> fast = common(cpus, parse_list(read_text(root + "/sys/devices/cpu_core/cpus")));
    return fast.empty() ? cpus : fast;
}

struct Quota {
    uint32_t processors = 0;
    std::string cgroup;
};

void bound(std::optional<Quota> &least, std::optional<uint64_t> quota_us, std::optional<uint64_t> period_us,
           const Cgroup &group) {
    if (!quota_us || !period_us || *period_us == 0) {
        return; // "max", -1, or the file does not exist
    }
    const auto processors = static_cast<uint32_t>(std::clamp<uint64_t>(*quota_us / *period_us, 1, UINT32_MAX));
    if (!least || processors < least->processors) {
        least = {processors, group.path};
    }
}

std::optional<Quota> quota_of(const std::string &root) {
    std::optional<Quota> least;
    for (const Cgroup &group : cgroups_v1(root, "cpu")) {
        bound(least, read_number(group.directory + "/cpu.cfs_quota_us"),
              read_number(group.directory + "/cpu.cfs_period_us"), group);
    }
    for (const Cgroup &group : cgroups_v2(root)) { // "200000 100000\n"
        std::string text = read_text(group.directory + "/cpu.max");
        std::ranges::replace(text, '\n', ' ');
        const std::vector<std::string_view> words = words_of(text);
        if (words.size() == 2) {
            bound(least, to_number(words[0]), to_number(words[1]), group);
        }
    }
    return least;
}

} // namespace

uint32_t Cpus::default_threads() const { return quota > 0 ? std::min(quota, usable_cores) : usable_cores; }

std::string Cpus::bound_by() const {
    if (default_threads() >= cores) {
        return {};
    }
    return quota > 0 && quota < usable_cores ? fmt::format("CPU quota of cgroup {}", quota_cgroup) : "CPU affinity";
}

Cpus usable_cpus(const std::string &root) {
    const std::vector<uint32_t> all = online(root);
    const KeyedFile status(root + "/proc/self/status");
    std::vector<uint32_t> mask = common(all, parse_list(status.value("Cpus_allowed_list")));
    if (mask.empty()) {
        mask = all;
    }
    Cpus cpus;
    cpus.cores = std::max(1U, count_cores(root, without_efficiency_cores(root, all)));
    cpus.usable_cores = std::max(1U, count_cores(root, without_efficiency_cores(root, mask)));
    cpus.processors = std::max(1U, static_cast<uint32_t>(mask.size()));
    if (const std::optional<Quota> quota = quota_of(root)) {
        cpus.quota = quota->processors;
        cpus.quota_cgroup = quota->cgroup;
        cpus.processors = std::min(cpus.processors, cpus.quota);
    }
    return cpus;
}

} // namespace larder

// What /proc and /sys say of memory at this moment.
#include "pressure/pressure.h"

#include "base/bytes.h"
#include "plan/proc_files.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace larder {
namespace {

// The line "some avg10=1.23 avg60=..." of a pressure file, in percent.
std::optional<double> stalled_share(const std::string &path) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string kind;
        std::string average;
        words >> kind >> average;
        constexpr std::string_view key = "avg10=";
        double percent = 0;
        if (kind == "some" && average.starts_with(key) &&
            std::from_chars(average.data() + key.size(), average.data() + average.size(), percent).ec == std::errc()) {
            return std::clamp(percent / 100, 0.0, 1.0);
        }
    }
    return std::nullopt;
}

uint64_t limit_hits_v2(const Cgroup &group) {
    const KeyedFile events(group.directory + "/memory.events");
    uint64_t hits = 0;
    for (const char *key : {"high", "max", "oom"}) {
        hits += events.find(key).value_or(0);
    }
    return hits;
}

} // namespace

Readings read_pressure(const std::string &root) {
    Readings readings;
    readings.machine = probe_memory(root);
    const KeyedFile status(root + "/proc/self/status");
    readings.rss_bytes = status.find("VmRSS").value_or(0) * KiB;
    const auto anonymous = status.find("RssAnon");
    readings.own_bytes = anonymous ? (*anonymous + status.find("RssShmem").value_or(0)) * KiB : readings.rss_bytes;

    std::optional<double> stalled;
    for (const Cgroup &group : memory_cgroups(root, CgroupVersion::v2)) {
        readings.limit_hits += limit_hits_v2(group);
        stalled = stalled_share(group.directory + "/memory.pressure"); // the last one is the process's own
    }
    for (const Cgroup &group : memory_cgroups(root, CgroupVersion::v1)) {
        readings.limit_hits += read_number(group.directory + "/memory.failcnt").value_or(0);
    }
    readings.stalled = stalled ? *stalled : stalled_share(root + "/proc/pressure/memory").value_or(0);
    return readings;
}

} // namespace larder

// Reads the current memory figures from /proc and /sys.
#include "pressure/pressure.h"

#include "base/bytes.h"
#include "machine/cgroups.h"
#include "machine/proc_files.h"
#include "machine/process_memory.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

namespace larder {
namespace {

// Parses the line "some avg10=1.23 avg60=..." (percent) of a pressure file.
std::optional<double> stalled_share(const std::string &path) {
    constexpr std::string_view key = "avg10=";
    const KeyedFile stalls(path);
    const std::vector<std::string_view> figures = words_of(stalls.value("some"));
    double percent = 0;
    if (figures.empty() || !figures[0].starts_with(key) ||
        std::from_chars(figures[0].data() + key.size(), figures[0].data() + figures[0].size(), percent).ec !=
            std::errc()) {
        return std::nullopt;
    }
    return std::clamp(percent / 100, 0.0, 1.0);
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
    const ProcessMemory process = process_memory(root);
    readings.rss_bytes = process.rss_bytes;
    readings.own_bytes = held_bytes(root);
    readings.children_bytes = readings.own_bytes - std::min(readings.own_bytes, process.anonymous_bytes);

    std::optional<double> stalled;
    for (const Cgroup &group : cgroups_v2(root)) {
        readings.limit_hits += limit_hits_v2(group);
        stalled = stalled_share(group.directory + "/memory.pressure"); // the last one is the process's own
    }
    for (const Cgroup &group : cgroups_v1(root, "memory")) {
        readings.limit_hits += read_number(group.directory + "/memory.failcnt").value_or(0);
    }
    readings.stalled = stalled ? *stalled : stalled_share(root + "/proc/pressure/memory").value_or(0);
    return readings;
}

} // namespace larder

// alarm.h — wakes the watcher when memory becomes scarce between two of its readings (private to pressure).
//
// All processes in the cgroups above this one that have a limit can take memory from it. A neighbour (another process
// in such a cgroup) can take a hundred MiB between two readings. The kernel offers these notifications:
//
//   - cgroup v1: an eventfd is written when memory.usage_in_bytes crosses a threshold (cgroup.event_control).
//   - cgroup v2: poll() on memory.events reports that a limit was reached, on memory.pressure that tasks stall (PSI
//     trigger).
//   - both: /proc/pressure/memory, for a shortage of the whole machine.
//
// Only the first one comes before a limit is reached. If the kernel refuses it (in a container without write access,
// for example), and with cgroup v2, the alarm polls the group's usage, one number. The interval is the time in which a
// neighbour could use up the remaining memory at 1 GiB/s, but at least 5 ms.
//
// An alarm means that a new reading is due, not that memory is short. Files that cannot be opened or read are ignored.
//
// Threads: one, except ring(), which any thread may call.
#pragma once

#include "base/unique_fd.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace larder {

class PressureAlarm {
  public:
    // Reads /proc and /sys with `root` prepended. Watches nothing before the first follow().
    explicit PressureAlarm(std::string root);

    // Follows the current limits. Cheap if they have not changed; otherwise it may take some 10 ms for each threshold.
    void follow();
    // Blocks until `timeout` has passed, an alarm occurs, or ring() is called.
    void wait(std::chrono::milliseconds timeout);
    void ring();

    // The number of groups whose thresholds the kernel watches, and of those whose usage is polled.
    [[nodiscard]] size_t watched() const;
    [[nodiscard]] size_t read() const;

  private:
    struct Group { // a cgroup with a limit
        std::string usage_path;
        uint64_t limit = 0;
        uint64_t usage = 0; // at the last reading
        UniqueFd crossed;   // the eventfd that the kernel writes to; none if it refused
    };

    std::vector<Group> limited_groups() const;
    void follow_groups();
    void follow_events();
    [[nodiscard]] std::chrono::milliseconds until_next_read() const;
    bool usage_has_risen();

    const std::string root_;
    const UniqueFd rung_;
    std::vector<Group> groups_;
    std::vector<std::string> event_groups_; // directories of cgroup v2
    std::vector<UniqueFd> events_;          // polled for POLLPRI
    bool following_ = false;
};

} // namespace larder

// alarm.h — wakes the watcher when memory gets scarce between two of its looks (private to pressure).
//
// Who may take memory from this process is everything in the cgroups above it that have a limit, and a neighbour can
// take a hundred MiB in the time between two looks. What the kernel offers against that:
//
//   cgroup v1   an eventfd is written when memory.usage_in_bytes crosses a threshold (cgroup.event_control)
//   cgroup v2   memory.events is polled for a limit run into, memory.pressure for a stall (PSI trigger)
//   both        /proc/pressure/memory, for a machine that runs short as a whole
//
// Only the first says it before a limit is reached. Where it is refused, as in a container that may not write there,
// and with cgroup v2, the group's usage is read instead, one number, the more often the less room there is: in the time
// that a neighbour takes to fill it at 1 GiB/s, but not below 5 ms.
//
// An alarm says that it is time to look, not that memory is short. Whatever cannot be opened or read is left out.
//
// Threads: one, but ring() from any.
#pragma once

#include "base/unique_fd.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace larder {

class PressureAlarm {
  public:
    // Reads /proc and /sys with `root` before them. Watches nothing before the first follow().
    explicit PressureAlarm(std::string root);

    // Follows the limits as they are now. Cheap where they have not changed; else it may take some 10 ms for each
    // threshold.
    void follow();
    // Blocks for `timeout` or until there is an alarm, or ring().
    void wait(std::chrono::milliseconds timeout);
    void ring();

    // Groups whose thresholds the kernel watches, and those whose usage is read.
    [[nodiscard]] size_t watched() const;
    [[nodiscard]] size_t read() const;

  private:
    struct Group { // with a limit
        std::string usage_path;
        uint64_t limit = 0;
        uint64_t usage = 0; // when it was looked at last
        UniqueFd crossed;   // the kernel writes to this eventfd; none where it refused to
    };

    std::vector<Group> limited_groups() const;
    void follow_groups();
    void follow_events();
    [[nodiscard]] std::chrono::milliseconds until_next_read() const;
    bool usage_has_risen();

    const std::string root_;
    const UniqueFd rung_;
    std::vector<Group> groups_;
    std::vector<std::string> event_groups_; // directories, of cgroup v2
    std::vector<UniqueFd> events_;          // polled for POLLPRI
    bool following_ = false;
};

} // namespace larder

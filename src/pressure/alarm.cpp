#include "pressure/alarm.h"

#include "base/bytes.h"
#include "machine/cgroups.h"
#include "machine/proc_files.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace larder {
namespace {

using std::chrono::milliseconds;

// Thresholds below a limit, in MiB. Setting one takes a kernel grace period of some milliseconds, so there are few:
// dense where little time is left.
constexpr std::array<uint64_t, 12> threshold_mib = {1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96};
constexpr uint64_t neighbour_bytes_per_ms = MiB; // the highest rate that is assumed
constexpr milliseconds read_interval_min{5};
constexpr uint64_t rise_bytes = MiB; // a smaller rise is ignored
constexpr uint64_t room_min = 64 * MiB;

void write_text(const std::string &path, const std::string &text, bool &written) {
    const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    written = file.valid() && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// An eventfd that is written when the usage crosses one of the thresholds, up or down; none if the kernel refuses one.
UniqueFd thresholds(const std::string &directory, const std::string &usage_path, uint64_t limit) {
    UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const UniqueFd usage(open(usage_path.c_str(), O_RDONLY | O_CLOEXEC));
    bool written = event.valid() && usage.valid();
    for (const uint64_t mib : threshold_mib) {
        if (written && mib * MiB < limit) {
            write_text(directory + "/cgroup.event_control",
                       fmt::format("{} {} {}", event.get(), usage.get(), limit - mib * MiB), written);
        }
    }
    return written ? std::move(event) : UniqueFd();
}

// "some 25000 500000": a stall of 25000 microseconds within 500000. A process without the right to an interval of half
// a second has the right to one of two seconds.
UniqueFd stall_trigger(const std::string &path) {
    for (const uint32_t window_us : {500'000U, 2'000'000U}) {
        UniqueFd file(open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
        const std::string trigger = fmt::format("some {} {}", window_us / 20, window_us);
        if (file.valid() && write(file.get(), trigger.c_str(), trigger.size() + 1) > 0) {
            return file;
        }
    }
    return {};
}

// A changed file is reported until it is read again.
void read_again(int fd) {
    std::array<char, 512> text{};
    [[maybe_unused]] const ssize_t n = pread(fd, text.data(), text.size(), 0);
}

void drain(int eventfd) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(eventfd, &count, sizeof count);
}

std::optional<uint64_t> least_limit(const Cgroup &group) {
    std::optional<uint64_t> least;
    for (const CgroupLimit &limit : memory_limits(group)) {
        least = std::min(least.value_or(limit.bytes), limit.bytes);
    }
    return least;
}

} // namespace

PressureAlarm::PressureAlarm(std::string root)
    : root_(std::move(root)), rung_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

std::vector<PressureAlarm::Group> PressureAlarm::limited_groups() const {
    std::vector<Group> groups;
    for (const Cgroup &group : memory_cgroups(root_)) {
        if (const auto limit = least_limit(group)) {
            groups.push_back({memory_usage_path(group), *limit, 0, {}});
        }
    }
    return groups;
}

// Opened again when the process changes its cgroup: events of a group that it has left would be reported for ever.
void PressureAlarm::follow_events() {
    std::vector<std::string> groups;
    for (const Cgroup &group : cgroups_v2(root_)) {
        groups.push_back(group.directory);
    }
    if (std::exchange(following_, true) && groups == event_groups_) {
        return;
    }
    event_groups_ = std::move(groups);
    events_.clear();
    for (const std::string &group : event_groups_) {
        events_.push_back(stall_trigger(group + "/memory.pressure"));
        events_.push_back(UniqueFd(open((group + "/memory.events").c_str(), O_RDONLY | O_CLOEXEC)));
    }
    events_.push_back(stall_trigger(root_ + "/proc/pressure/memory"));
    std::erase_if(events_, [](const UniqueFd &fd) { return !fd.valid(); });
    for (const UniqueFd &event : events_) {
        read_again(event.get());
    }
}

void PressureAlarm::follow_groups() {
    std::vector<Group> now = limited_groups();
    const auto same = [](const Group &a, const Group &b) { return a.usage_path == b.usage_path && a.limit == b.limit; };
    if (!std::ranges::equal(now, groups_, same)) {
        groups_ = std::move(now);
        for (Group &group : groups_) {
            group.crossed =
                thresholds(group.usage_path.substr(0, group.usage_path.rfind('/')), group.usage_path, group.limit);
        }
    }
    for (Group &group : groups_) {
        group.usage = read_number(group.usage_path).value_or(0);
    }
}

void PressureAlarm::follow() {
    follow_events();
    follow_groups();
}

milliseconds PressureAlarm::until_next_read() const {
    milliseconds least = milliseconds::max();
    for (const Group &group : groups_) {
        if (!group.crossed.valid()) {
            const uint64_t room = group.limit - std::min(group.limit, group.usage);
            least = std::min(least, std::max(read_interval_min, milliseconds(room / neighbour_bytes_per_ms)));
        }
    }
    return least;
}

bool PressureAlarm::usage_has_risen() {
    bool risen = false;
    for (Group &group : groups_) {
        if (!group.crossed.valid()) {
            const uint64_t usage = read_number(group.usage_path).value_or(0);
            risen = risen || (usage >= group.usage + rise_bytes && usage + room_min >= group.limit);
            group.usage = risen ? usage : std::min(usage, group.usage);
        }
    }
    return risen;
}

void PressureAlarm::wait(milliseconds timeout) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    std::vector<pollfd> fds = {{rung_.get(), POLLIN, 0}};
    for (const Group &group : groups_) {
        fds.push_back({group.crossed.get(), POLLIN, 0}); // poll() ignores -1
    }
    for (const UniqueFd &event : events_) {
        fds.push_back({event.get(), POLLPRI, 0});
    }
    constexpr milliseconds longest{60'000}; // of one poll()
    for (;;) {
        const auto passed = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
        const milliseconds left = timeout - std::min(timeout, passed);
        const milliseconds slice = std::min({left, until_next_read(), longest});
        if (::poll(fds.data(), fds.size(), static_cast<int>(slice.count())) > 0) {
            break;
        }
        if (slice == left || usage_has_risen()) {
            return;
        }
    }
    for (size_t i = 0; i < fds.size(); i++) {
        if (fds[i].revents == 0) {
            continue;
        }
        if (i <= groups_.size()) {
            drain(fds[i].fd);
        } else {
            read_again(fds[i].fd);
        }
    }
}

void PressureAlarm::ring() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(rung_.get(), &one, sizeof one);
}

size_t PressureAlarm::watched() const {
    return static_cast<size_t>(
        std::ranges::count_if(groups_, [](const Group &group) { return group.crossed.valid(); }));
}

size_t PressureAlarm::read() const { return groups_.size() - watched(); }

} // namespace larder

#include "machine/process_memory.h"

#include "machine/proc_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

namespace larder {

namespace {

uint64_t anonymous_of(const KeyedFile &status) {
    return status.find("RssAnon") ? status.bytes("RssAnon") + status.bytes("RssShmem") : status.bytes("VmRSS");
}

// Without a destructor, because an object with static storage may own a child. A child without a place is not counted.
struct CountedPlace {
    std::atomic<pid_t> pid{0}; // 0: free
    // The most that the child held alone. While it has a child of its own, it shares its pages with that.
    std::atomic<uint64_t> most_bytes{0};
};
constinit std::array<CountedPlace, 16> counted_children{};

void replace(pid_t before, pid_t after) {
    for (CountedPlace &place : counted_children) {
        if (pid_t expected = before; place.pid.compare_exchange_strong(expected, after)) {
            place.most_bytes = 0;
            return;
        }
    }
}

uint64_t held_by(CountedPlace &place, const std::string &root) {
    const pid_t pid = place.pid;
    if (pid == 0) {
        return 0;
    }
    const uint64_t now = KeyedFile(fmt::format("{}/proc/{}/smaps_rollup", root, pid)).bytes("Private_Dirty");
    place.most_bytes = std::max<uint64_t>(place.most_bytes, now);
    return place.most_bytes;
}

} // namespace

ProcessMemory process_memory(const std::string &root) {
    const KeyedFile status(root + "/proc/self/status");
    const KeyedFile io(root + "/proc/self/io");
    ProcessMemory memory;
    memory.rss_bytes = status.bytes("VmRSS");
    memory.peak_rss_bytes = status.bytes("VmHWM");
    memory.anonymous_bytes = anonymous_of(status);
    memory.vm_swap_bytes = status.bytes("VmSwap");
    memory.locked_bytes = status.bytes("VmLck");
    memory.read_bytes = io.bytes("read_bytes");
    memory.written_bytes = io.bytes("write_bytes");
    return memory;
}

uint64_t anonymous_bytes(const std::string &root) { return anonymous_of(KeyedFile(root + "/proc/self/status")); }

uint64_t held_bytes(const std::string &root) {
    uint64_t bytes = anonymous_bytes(root);
    for (CountedPlace &place : counted_children) {
        bytes += held_by(place, root);
    }
    return bytes;
}

CountedChild::CountedChild(pid_t pid) : pid_(pid) { replace(0, pid_); }
CountedChild::~CountedChild() { replace(pid_, 0); }

} // namespace larder

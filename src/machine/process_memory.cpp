#include "machine/process_memory.h"

#include "machine/proc_files.h"

#include <fmt/format.h>

#include <array>
#include <atomic>

namespace larder {

namespace {

uint64_t anonymous_of(const KeyedFile &status) {
    return status.find("RssAnon") ? status.bytes("RssAnon") + status.bytes("RssShmem") : status.bytes("VmRSS");
}

// The counted children; 0 is a free place. Without a destructor, because an object with static storage may own a child.
// A child without a place is not counted.
constinit std::array<std::atomic<pid_t>, 16> counted_children{};

void replace(pid_t before, pid_t after) {
    for (std::atomic<pid_t> &place : counted_children) {
        if (pid_t expected = before; place.compare_exchange_strong(expected, after)) {
            return;
        }
    }
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
    for (const pid_t pid : counted_children) {
        bytes += pid == 0 ? 0 : KeyedFile(fmt::format("{}/proc/{}/smaps_rollup", root, pid)).bytes("Private_Dirty");
    }
    return bytes;
}

CountedChild::CountedChild(pid_t pid) : pid_(pid) { replace(0, pid_); }
CountedChild::~CountedChild() { replace(pid_, 0); }

} // namespace larder

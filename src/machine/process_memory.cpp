#include "machine/process_memory.h"

#include "machine/proc_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace larder {

namespace {

uint64_t anonymous_of(const KeyedFile &status) {
    return status.find("RssAnon") ? status.bytes("RssAnon") + status.bytes("RssShmem") : status.bytes("VmRSS");
}

class CountedChildren {
  public:
    void add(pid_t pid) {
        const std::lock_guard lock(mutex_);
        pids_.push_back(pid);
    }
    void remove(pid_t pid) {
        const std::lock_guard lock(mutex_);
        pids_.erase(std::ranges::find(pids_, pid));
    }
    uint64_t bytes(const std::string &root) {
        const std::lock_guard lock(mutex_);
        uint64_t bytes = 0;
        for (const pid_t pid : pids_) {
            bytes += KeyedFile(fmt::format("{}/proc/{}/smaps_rollup", root, pid)).bytes("Private_Dirty");
        }
        return bytes;
    }

  private:
    std::mutex mutex_;
    std::vector<pid_t> pids_; // guarded by mutex_
};

CountedChildren &counted_children() {
    static CountedChildren all;
    return all;
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

uint64_t held_bytes(const std::string &root) { return anonymous_bytes(root) + counted_children().bytes(root); }

CountedChild::CountedChild(pid_t pid) : pid_(pid) { counted_children().add(pid_); }

CountedChild::~CountedChild() { counted_children().remove(pid_); }

} // namespace larder

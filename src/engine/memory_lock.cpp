#include "engine/memory_lock.h"

#include "base/bytes.h"
#include "base/error.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

namespace larder {

namespace {

constexpr const char *remedy =
    "raise it ('ulimit -l unlimited', or LimitMEMLOCK=infinity in a systemd unit), or leave out --mlock";
constexpr uint64_t capability_ipc_lock = uint64_t{1} << 14;

bool may_lock_without_limit() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("CapEff:")) {
            return (std::stoull(line.substr(7), nullptr, 16) & capability_ipc_lock) != 0;
        }
    }
    return false;
}

struct Mapping {
    uintptr_t begin = 0;
    uintptr_t end = 0;
};

// Lines of /proc/self/maps: begin-end permissions offset device inode path. No path, [heap] and [stack] are anonymous.
bool is_own_memory(const std::string &line, Mapping &mapping) {
    std::istringstream words(line);
    std::string range;
    std::string permissions;
    std::string offset;
    std::string device;
    std::string inode;
    words >> range >> permissions >> offset >> device >> inode;
    const size_t dash = range.find('-');
    if (dash == std::string::npos || !permissions.starts_with("rw") || inode != "0") {
        return false;
    }
    const char *const text = range.data();
    std::from_chars(text, text + dash, mapping.begin, 16);
    std::from_chars(text + dash + 1, text + range.size(), mapping.end, 16);
    return mapping.end > mapping.begin;
}

} // namespace

void check_may_lock(uint64_t bytes) {
    rlimit limit{};
    if (may_lock_without_limit() || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= bytes) {
        return;
    }
    throw Error(ErrorKind::budget,
                fmt::format("--mlock: this process may lock {} of memory, and {} are planned",
                            limit.rlim_cur == 0 ? "nothing" : format_bytes(limit.rlim_cur), format_bytes(bytes)),
                remedy);
}

void lock_memory() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        Mapping mapping;
        if (is_own_memory(line, mapping) &&
            mlock2(reinterpret_cast<void *>(mapping.begin), mapping.end - mapping.begin, MLOCK_ONFAULT) != 0) {
            throw Error::from_errno(errno, "--mlock: the kernel does not lock the memory", remedy);
        }
    }
}

} // namespace larder

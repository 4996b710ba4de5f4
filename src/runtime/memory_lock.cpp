#include "engine/memory_lock.h"

#include "base/bytes.h"
#include "base/error.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
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
    void *begin = nullptr;
    void *end = nullptr;
    [[nodiscard]] size_t bytes() const {
        return static_cast<size_t>(static_cast<char *>(end) - static_cast<char *>(begin));
    }
};

// Lines of /proc/self/maps: begin-end permissions offset device inode path. What is mapped for writing and belongs to
// no file.
std::optional<Mapping> own_memory(const std::string &line) {
    std::istringstream words(line);
    Mapping mapping;
    char dash = '\0';
    std::string permissions;
    std::string offset;
    std::string device;
    std::string inode;
    words >> mapping.begin >> dash >> mapping.end >> permissions >> offset >> device >> inode;
    if (!words || dash != '-' || !permissions.starts_with("rw") || inode != "0") {
        return std::nullopt;
    }
    return mapping;
}

} // namespace

std::optional<uint64_t> lock_limit() {
    rlimit limit{};
    if (may_lock_without_limit() || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return std::nullopt;
    }
    return limit.rlim_cur;
}

void check_may_lock(uint64_t limit_bytes, uint64_t planned_bytes, uint64_t untouched_bytes) {
    if (planned_bytes + untouched_bytes <= limit_bytes) {
        return;
    }
    throw Error(ErrorKind::budget,
                fmt::format("--mlock: this process may lock {} of memory, and {} are planned, beside {} of addresses "
                            "that count and are not touched",
                            limit_bytes == 0 ? "nothing" : format_bytes(limit_bytes), format_bytes(planned_bytes),
                            format_bytes(untouched_bytes)),
                remedy);
}

void lock_memory() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        const std::optional<Mapping> mapping = own_memory(line);
        if (mapping && mlock2(mapping->begin, mapping->bytes(), MLOCK_ONFAULT) != 0) {
            throw Error::from_errno(errno, "--mlock: the kernel does not lock the memory", remedy);
        }
    }
}

} // namespace larder

#include "machine/memory_lock.h"

#include "base/bytes.h"
#include "base/error.h"
#include "machine/proc_files.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <charconv>
#include <string>

namespace larder {

namespace {

constexpr const char *remedy =
    "raise it ('ulimit -l unlimited', or LimitMEMLOCK=infinity in a systemd unit), or leave out --mlock";
constexpr uint64_t capability_ipc_lock = uint64_t{1} << 14;

std::optional<uint64_t> hexadecimal(std::string_view text) {
    uint64_t number = 0;
    const char *const end = text.data() + text.size();
    const auto [stopped, code] = std::from_chars(text.data(), end, number, 16);
    return code == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

bool may_lock_without_limit() {
    const uint64_t capabilities = hexadecimal(KeyedFile("/proc/self/status").value("CapEff")).value_or(0);
    return (capabilities & capability_ipc_lock) != 0;
}

struct Mapping {
    uint64_t begin = 0;
    uint64_t end = 0;
};

// Fields of a line of /proc/self/maps: begin-end, permissions, offset, device, inode, path. Returns writable mappings
// without a file.
std::optional<Mapping> own_memory(std::string_view line) {
    const std::vector<std::string_view> fields = words_of(line);
    if (fields.size() < 5 || !fields[1].starts_with("rw") || fields[4] != "0") {
        return std::nullopt;
    }
    const size_t dash = fields[0].find('-');
    const auto begin = hexadecimal(fields[0].substr(0, dash));
    const auto end = dash == std::string_view::npos ? std::nullopt : hexadecimal(fields[0].substr(dash + 1));
    return begin && end ? std::optional(Mapping{*begin, *end}) : std::nullopt;
}

} // namespace

std::optional<uint64_t> lock_limit() {
    rlimit limit{};
    if (may_lock_without_limit() || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return std::nullopt;
    }
    return limit.rlim_cur;
}

void check_may_lock(uint64_t limit_bytes, uint64_t held_bytes, uint64_t untouched_bytes) {
    if (held_bytes + untouched_bytes <= limit_bytes) {
        return;
    }
    throw Error(ErrorKind::budget,
                fmt::format("--mlock: this process may lock {} of memory, and needs to lock {}, and {} of addresses "
                            "that it maps and does not touch",
                            limit_bytes == 0 ? "nothing" : format_bytes(limit_bytes), format_bytes(held_bytes),
                            format_bytes(untouched_bytes)),
                remedy);
}

void lock_memory() {
    // MCL_FUTURE comes first: a mapping that another thread makes meanwhile is then locked either by it or by the loop.
    const auto refused = [] {
        return Error::from_errno(errno, "--mlock: the kernel does not lock the memory", remedy);
    };
    if (mlockall(MCL_FUTURE | MCL_ONFAULT) != 0) {
        throw refused();
    }
    const std::string maps = read_text("/proc/self/maps");
    for_each_line(maps, [&](std::string_view line) {
        const std::optional<Mapping> mapping = own_memory(line);
        if (mapping &&
            // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel names its mappings by numbers
            mlock2(reinterpret_cast<void *>(mapping->begin), mapping->end - mapping->begin, MLOCK_ONFAULT) != 0) {
            throw refused();
        }
    });
}

} // namespace larder

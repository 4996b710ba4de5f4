#include "io/file_system.h"

#include "base/bytes.h"
#include "base/unique_fd.h"

#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace larder {

namespace {

// From linux/magic.h; ZFS is not in it.
constexpr uint32_t tmpfs_magic = 0x01021994;
constexpr uint32_t ramfs_magic = 0x858458f6;
constexpr uint32_t btrfs_magic = 0x9123683e;
constexpr uint32_t zfs_magic = 0x2fc12fc1;

constexpr uint64_t btrfs_compressed_extent_max = 128 * KiB;

// 0: the kernel does not report it.
uint32_t magic_of(int fd) {
    struct statfs info = {};
    return ::fstatfs(fd, &info) == 0 ? static_cast<uint32_t>(info.f_type) : 0;
}

} // namespace

bool lies_in_memory(int fd) {
    const uint32_t magic = magic_of(fd);
    return magic == tmpfs_magic || magic == ramfs_magic;
}

uint64_t cached_past_reads(int fd) { return magic_of(fd) == btrfs_magic ? btrfs_compressed_extent_max : 0; }

bool reads_through_arc(int fd) {
    if (magic_of(fd) != zfs_magic) {
        return false;
    }
    const UniqueFd module(::open("/sys/module/zfs/version", O_RDONLY | O_CLOEXEC));
    std::array<char, 64> version{};
    const ssize_t n = module.valid() ? ::read(module.get(), version.data(), version.size()) : 0;
    return zfs_ignores_direct({version.data(), static_cast<size_t>(std::max<ssize_t>(n, 0))});
}

bool zfs_ignores_direct(std::string_view version) {
    int major = 0;
    int minor = 0;
    const char *const end = version.data() + version.size();
    const auto [dot, major_error] = std::from_chars(version.data(), end, major);
    if (major_error != std::errc() || dot == end || *dot != '.' ||
        std::from_chars(dot + 1, end, minor).ec != std::errc()) {
        return true;
    }
    return std::pair(major, minor) < std::pair(2, 3);
}

} // namespace larder

#include "io/page_cache.h"

#include "base/bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace larder {

namespace {

// The rule of mincore(). For other callers it reports every page as cached.
bool kernel_tells(int fd) {
    struct stat status = {};
    if (::fstat(fd, &status) != 0) {
        return false;
    }
    return status.st_uid == ::geteuid() || ::geteuid() == 0 ||
           ::faccessat(AT_FDCWD, fmt::format("/proc/self/fd/{}", fd).c_str(), W_OK, AT_EACCESS) == 0;
}

} // namespace

std::optional<uint64_t> cached_bytes(int fd, uint64_t offset, uint64_t bytes) {
    if (!kernel_tells(fd)) {
        return std::nullopt;
    }
    const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t begin = align_down(offset, page_bytes);
    const uint64_t length = offset + bytes - begin;
    void *mapping = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(begin));
    if (mapping == MAP_FAILED) {
        return std::nullopt;
    }
    std::vector<unsigned char> pages(align_up(length, page_bytes) / page_bytes);
    const int failed = ::mincore(mapping, length, pages.data());
    ::munmap(mapping, length);
    if (failed != 0) {
        return std::nullopt;
    }
    const auto cached = std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; });
    return static_cast<uint64_t>(cached) * page_bytes;
}

void drop_cached(int fd, uint64_t offset, uint64_t bytes) {
    (void)::posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

} // namespace larder

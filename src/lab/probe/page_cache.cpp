#include "lab/probe/page_cache.h"

#include "base/bytes.h"
#include "base/error.h"
#include "lab/probe/probe.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace larder {

namespace {

// Since Linux 5.2 mincore() calls every page cached for those who neither own the file nor may write to it.
bool may_be_told(int fd, const std::string &path) {
    struct stat status = {};
    return ::fstat(fd, &status) == 0 &&
           (status.st_uid == ::geteuid() || ::geteuid() == 0 || ::access(path.c_str(), W_OK) == 0);
}

} // namespace

PageCache::PageCache(const std::vector<std::string> &paths) {
    for (const std::string &path : paths) {
        fds_.emplace_back(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // a pipe is not waited for
        const int fd = fds_.back().get();
        const off_t end = fd < 0 ? -1 : ::lseek(fd, 0, SEEK_END); // of a block device too
        if (end < 0) {
            throw Error::from_errno(errno, "cannot open " + path, "check the path and its permissions");
        }
        file_bytes_.push_back(static_cast<uint64_t>(end));
        told_.push_back(may_be_told(fd, path));
    }
}

void PageCache::write_back() const {
    for (const UniqueFd &fd : fds_) {
        (void)::fdatasync(fd.get()); // not every file system has something to write
    }
}

void PageCache::drop() const {
    write_back(); // such pages would stay
    for (const UniqueFd &fd : fds_) {
        // Only advice: what stays is counted.
        (void)::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
}

std::optional<uint64_t> PageCache::cached_bytes(uint32_t file, uint64_t offset, uint64_t bytes) const {
    const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t begin = align_down(offset, page_bytes);
    const uint64_t length = offset + bytes - begin;
    if (!told_[file]) {
        return std::nullopt;
    }
    void *mapping = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fds_[file].get(), static_cast<off_t>(begin));
    if (mapping == MAP_FAILED) {
        return std::nullopt;
    }
    std::vector<unsigned char> pages(align_up(length, page_bytes) / page_bytes);
    const int failed = ::mincore(mapping, length, pages.data());
    ::munmap(mapping, length);
    if (failed != 0) {
        return std::nullopt;
    }
    const auto cached = std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
    return static_cast<uint64_t>(cached) * page_bytes;
}

void drop_page_cache(const std::vector<std::string> &paths) { PageCache(paths).drop(); }

} // namespace larder

#include "lab/probe/page_cache.h"

#include "base/error.h"
#include "io/page_cache.h"
#include "lab/probe/probe.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace larder {

PageCache::PageCache(const std::vector<std::string> &paths) {
    for (const std::string &path : paths) {
        fds_.emplace_back(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // do not block on a pipe
        const int fd = fds_.back().get();
        const off_t end = fd < 0 ? -1 : ::lseek(fd, 0, SEEK_END); // also for block devices
        if (end < 0) {
            throw cannot_open(path, errno);
        }
        file_bytes_.push_back(static_cast<uint64_t>(end));
    }
}

void PageCache::write_back() const {
    for (const UniqueFd &fd : fds_) {
        (void)::fdatasync(fd.get()); // some file systems have nothing to write back
    }
}

void PageCache::drop() const {
    write_back(); // dirty pages cannot be dropped
    for (size_t file = 0; file < fds_.size(); file++) {
        drop_cached(fds_[file].get(), 0, file_bytes_[file]);
    }
}

std::optional<uint64_t> PageCache::cached_bytes(uint32_t file, uint64_t offset, uint64_t bytes) const {
    return larder::cached_bytes(fds_[file].get(), offset, bytes);
}

void drop_page_cache(const std::vector<std::string> &paths) { PageCache(paths).drop(); }

} // namespace larder

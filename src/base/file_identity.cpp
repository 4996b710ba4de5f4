#include "base/file_identity.h"

#include <sys/stat.h>

namespace larder {

namespace {

int64_t nanoseconds(const timespec &time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

FileIdentity from(const struct stat &status) {
    return {status.st_dev,
            status.st_ino,
            static_cast<uint64_t>(status.st_size),
            nanoseconds(status.st_mtim),
            nanoseconds(status.st_ctim),
            status.st_nlink};
}

} // namespace

std::optional<FileIdentity> identity_of(int fd) {
    struct stat status = {};
    return ::fstat(fd, &status) == 0 ? std::optional(from(status)) : std::nullopt;
}

std::optional<FileIdentity> identity_of(const std::string &path) {
    struct stat status = {};
    return ::stat(path.c_str(), &status) == 0 ? std::optional(from(status)) : std::nullopt;
}

bool may_hold_other_bytes(const FileIdentity &before, const FileIdentity &now, bool may_be_written) {
    const bool same_bytes_and_times = before.device == now.device && before.inode == now.inode &&
                                      before.bytes == now.bytes && before.modified_ns == now.modified_ns;
    const bool only_links_changed = before.links != now.links && !may_be_written;
    return !same_bytes_and_times || (before.changed_ns != now.changed_ns && !only_links_changed);
}

} // namespace larder

// file_identity.h — which file a descriptor or a path leads to, and in which state.
//
// Two equal identities are the same bytes as far as the kernel can tell: a replaced file has another inode, a file that
// was written to has another ctime, whatever was done to its mtime.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace larder {

struct FileIdentity {
    uint64_t device = 0;
    uint64_t inode = 0;
    uint64_t bytes = 0;
    int64_t modified_ns = 0; // mtime, nanoseconds since the epoch
    int64_t changed_ns = 0;  // ctime; no program can set it

    bool operator==(const FileIdentity &) const = default;
};

// Of an open descriptor; of the file at the end of `path`'s links. None if the kernel refuses, errno says why.
std::optional<FileIdentity> identity_of(int fd);
std::optional<FileIdentity> identity_of(const std::string &path);

} // namespace larder

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
    uint64_t links = 0;      // names the file has

    bool operator==(const FileIdentity &) const = default;
};

// Of an open descriptor; of the file at the end of `path`'s links. None if the kernel refuses, errno says why.
std::optional<FileIdentity> identity_of(int fd);
std::optional<FileIdentity> identity_of(const std::string &path);

// Whether a file that was `before` may hold other bytes `now`. A name that was made or removed (a file that is deleted
// or replaced while a descriptor holds it open) changes the ctime too, and no byte; a change that leaves everything but
// the ctime as it was may be a write whose mtime was set back.
bool may_hold_other_bytes(const FileIdentity &before, const FileIdentity &now);

} // namespace larder

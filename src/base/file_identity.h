// file_identity.h — identifies a file and its state, by descriptor or by path.
//
// Equal identities mean equal bytes as far as the kernel can report: a replaced file has another inode, and a write
// changes the ctime even if the mtime is set back afterwards.
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
    uint64_t links = 0;      // number of hard links

    bool operator==(const FileIdentity &) const = default;
};

// The identity of an open file, or of the file at `path` (symbolic links are followed). None if the system call fails;
// errno then has the cause.
std::optional<FileIdentity> identity_of(int fd);
std::optional<FileIdentity> identity_of(const std::string &path);

// Whether a file that had the identity `before` may contain other bytes `now`. If only the ctime changed, a write may
// have happened whose mtime was set back. Adding or removing a hard link (also deleting or replacing a file that is
// still open) changes the ctime and the number of links, but no byte. It hides such a write, so it is an excuse only
// where it is known that nobody wrote: `may_be_written` is false.
bool may_hold_other_bytes(const FileIdentity &before, const FileIdentity &now, bool may_be_written);

} // namespace larder

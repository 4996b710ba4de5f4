// file_system.h — what must be known of a file system by its name, since the page cache does not show it (private to
// io).
#pragma once

#include <cstdint>
#include <string_view>

namespace larder {

// The file is RAM and nothing else: tmpfs or ramfs.
bool lies_in_memory(int fd);

// How far behind the end of a buffered read pages may be cached too, in bytes. btrfs caches the rest of a compressed
// extent that it had to decompress.
uint64_t cached_past_reads(int fd);

// The file lies on a ZFS that accepts O_DIRECT and reads through its own cache, the ARC.
bool reads_through_arc(int fd);
// `version` is ZFS's own, like "2.2.7-1". Direct I/O came with 2.3. True of one that is not understood.
bool zfs_ignores_direct(std::string_view version);

} // namespace larder

// file_system.h — properties of a file that depend on the type of its file system and that the page cache does not show
// (private to io).
#pragma once

#include <cstdint>
#include <string_view>

namespace larder {

// Whether the file is in RAM: on tmpfs or ramfs.
bool lies_in_memory(int fd);

// How many bytes after the end of a buffered read may also become cached. btrfs caches the rest of a compressed extent
// that it has decompressed.
uint64_t cached_past_reads(int fd);

// Whether the file is on a ZFS that accepts O_DIRECT but reads through its own cache, the ARC.
bool reads_through_arc(int fd);
// `version` is ZFS's own version, such as "2.2.7-1". ZFS supports direct I/O since 2.3. True for a version that cannot
// be parsed.
bool zfs_ignores_direct(std::string_view version);

} // namespace larder

// direct_check.h — do reads with O_DIRECT bypass the page cache? (private to io)
//
// A file system may accept O_DIRECT and read through the page cache all the same: btrfs where it has compressed the
// data, ext4 with data=journal or encryption. The check reads some blocks that are not cached and looks whether they
// are afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace larder {

enum class CacheUse {
    bypassed, // no block that was read is cached
    filled,   // a read filled the cache, each time it was tried
    unknown,  // the kernel does not tell, or all blocks stay cached: another process may have them mapped
};

// One open file, by its blocks of direct_io_alignment bytes. Offsets are multiples of it.
struct BlockAccess {
    std::function<std::optional<bool>(uint64_t offset)> cached; // none: the kernel does not tell
    std::function<void(uint64_t offset)> drop;                  // asks for the block to leave the cache
    std::function<void(uint64_t offset)> read;                  // with O_DIRECT
};

// Reads a few blocks, spread over the file: parts of one file may be compressed, others not. One that fills the cache
// decides.
CacheUse cache_use_of_direct_reads(const BlockAccess &file, uint64_t file_bytes);

// Of a descriptor opened with O_DIRECT.
BlockAccess block_access(int fd);

} // namespace larder

// direct_check.h — checks whether reads with O_DIRECT bypass the page cache (private to io).
//
// A file system may accept O_DIRECT but read through the page cache: btrfs for compressed data, ext4 with data=journal
// or encryption. The check reads some blocks that are not cached and tests whether they are cached afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace larder {

enum class CacheUse {
    bypassed, // the blocks that were read are not cached
    filled,   // a read filled the cache in every attempt
    unknown,  // the kernel does not report it, or all blocks stay cached: another process may have mapped them
};

// Access to one open file in blocks of direct_io_alignment bytes. Offsets are multiples of it.
struct BlockAccess {
    std::function<std::optional<bool>(uint64_t offset)> cached; // none: the kernel does not report it
    std::function<void(uint64_t offset)> drop;                  // requests that the block is dropped from the cache
    std::function<void(uint64_t offset)> read;                  // with O_DIRECT
};

// Reads a few blocks spread over the file, because parts of a file may be compressed. One block that fills the cache
// makes the result `filled`.
CacheUse cache_use_of_direct_reads(const BlockAccess &file, uint64_t file_bytes);

// For a descriptor opened with O_DIRECT.
BlockAccess block_access(int fd);

} // namespace larder

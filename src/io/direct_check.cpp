#include "io/direct_check.h"

#include "base/bytes.h"
#include "io/page_cache.h"

#include <unistd.h>

#include <algorithm>
#include <array>

namespace larder {

namespace {

constexpr uint64_t n_block_max = 5;
// Another process may read the same block between two steps, but hardly this many times in a row.
constexpr int rounds = 3;
// A page of a large folio is dropped only together with the whole folio. With pages of 4 KiB, folios of files are no
// larger than this on any architecture.
constexpr uint64_t folio_bytes_max = 2 * MiB;

// False if the block stays cached. A page that another process has written cannot be dropped before it is written back.
// A direct read writes it back, so the drop is tried again after one.
bool make_uncached(const BlockAccess &file, uint64_t offset) {
    for (int attempt = 0; attempt < 2; attempt++) {
        if (!*file.cached(offset)) {
            return true;
        }
        file.drop(offset);
        if (!*file.cached(offset)) {
            return true;
        }
        file.read(offset);
    }
    return false;
}

CacheUse cache_use(const BlockAccess &file, uint64_t offset) {
    for (int round = 0; round < rounds; round++) {
        if (!file.cached(offset) || !make_uncached(file, offset)) {
            return CacheUse::unknown;
        }
        file.read(offset);
        if (!*file.cached(offset)) {
            return CacheUse::bypassed;
        }
    }
    file.drop(offset);
    return CacheUse::filled;
}

} // namespace

CacheUse cache_use_of_direct_reads(const BlockAccess &file, uint64_t file_bytes) {
    const uint64_t n_block = std::max<uint64_t>(file_bytes / direct_io_alignment, 1);
    const uint64_t n_look = std::min(n_block, n_block_max);
    CacheUse all = CacheUse::unknown;
    for (uint64_t i = 0; i < n_look; i++) {
        const uint64_t block = n_look > 1 ? i * (n_block - 1) / (n_look - 1) : 0;
        const CacheUse one = cache_use(file, block * direct_io_alignment);
        if (one == CacheUse::filled) {
            return one;
        }
        all = one == CacheUse::bypassed ? one : all;
    }
    return all;
}

BlockAccess block_access(int fd) {
    BlockAccess access;
    access.cached = [fd](uint64_t offset) -> std::optional<bool> {
        const std::optional<uint64_t> bytes = cached_bytes(fd, offset, direct_io_alignment);
        return bytes ? std::optional(*bytes > 0) : std::nullopt;
    };
    access.drop = [fd](uint64_t offset) { drop_cached(fd, align_down(offset, folio_bytes_max), folio_bytes_max); };
    access.read = [fd](uint64_t offset) {
        alignas(direct_io_alignment) std::array<char, direct_io_alignment> block;
        (void)::pread(fd, block.data(), block.size(), static_cast<off_t>(offset)); // errors are ignored here
    };
    return access;
}

} // namespace larder

// page_cache.h — which pages of an open file the kernel caches.
#pragma once

#include <cstdint>
#include <optional>

namespace larder {

// Bytes of the range's pages that are in the page cache, in whole pages. None where the kernel does not tell: since
// Linux 5.2 it does so only for the owner of the file and for those who may write to it.
std::optional<uint64_t> cached_bytes(int fd, uint64_t offset, uint64_t bytes);

// Drops the pages that lie in the range whole, unless they are mapped, or not written to the disk yet. Only advice.
void drop_cached(int fd, uint64_t offset, uint64_t bytes);

} // namespace larder

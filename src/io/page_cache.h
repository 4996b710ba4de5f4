// page_cache.h — queries and drops the cached pages of an open file.
#pragma once

#include <cstdint>
#include <optional>

namespace larder {

// Bytes of the range's pages that are in the page cache, in whole pages. None if the kernel does not report them: since
// Linux 5.2 it does so only for the owner of the file and for users with write permission.
std::optional<uint64_t> cached_bytes(int fd, uint64_t offset, uint64_t bytes);

// Drops the pages that are completely inside the range, except mapped and dirty pages. Failure is harmless.
void drop_cached(int fd, uint64_t offset, uint64_t bytes);

} // namespace larder

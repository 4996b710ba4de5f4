// open_files.h — the files of a Reader, opened with or without direct I/O (private to io).
#pragma once

#include "base/unique_fd.h"
#include "io/io.h"

#include <string>
#include <vector>

namespace larder {

// ReaderOptions::depth and requests_max, with the defaults filled in.
struct ReaderLimits {
    uint32_t depth = 1;
    uint32_t requests_max = 1;
};

struct OpenFiles {
    std::vector<UniqueFd> fds;
    bool o_direct = false;       // all were opened with O_DIRECT, else none
    bool bypasses_cache = false; // reads of all of them bypass the page cache
    bool drops_behind = false;   // reads may leave pages in the cache, which can be dropped
    uint64_t drops_past = 0;     // pages so far behind the end of a read are dropped with it
    bool in_memory = false;      // one of them lies in RAM
    std::string notice;          // see ReaderInfo

    // Checks what only a bug in the caller can break: the file's index, the sizes, the alignment under O_DIRECT.
    void check(const ReadRequest &request) const;
    // Call it after each read. Drops what the read may have left in the page cache.
    void drop_behind(const ReadRequest &request) const;
    // The size of the file now. The largest number if the kernel does not say.
    [[nodiscard]] uint64_t bytes_now(uint32_t file) const;
    // See Reader::identity().
    [[nodiscard]] FileIdentity identity(uint32_t file) const;
};

// Opens all of `paths`. Throws Error(io) naming the file if one cannot be opened, or does not allow the direct I/O that
// is required.
OpenFiles open_files(const std::vector<std::string> &paths, DirectIo direct);

} // namespace larder

// open_files.h — the files of a Reader, opened with or without direct I/O (private to io).
#pragma once

#include "base/unique_fd.h"
#include "io/io.h"

#include <string>
#include <vector>

namespace larder {

// ReaderOptions::depth and requests_max, with defaults applied.
struct ReaderLimits {
    uint32_t depth = 1;
    uint32_t requests_max = 1;
};

struct OpenFiles {
    std::vector<UniqueFd> fds;
    bool o_direct = false;       // all files were opened with O_DIRECT, otherwise none
    bool bypasses_cache = false; // reads of all files bypass the page cache
    bool drops_behind = false;   // reads may leave pages in the cache that can be dropped
    uint64_t drops_past = 0;     // bytes after the end of a read whose pages are dropped too
    bool in_memory = false;      // at least one file is in RAM
    std::string notice;          // see ReaderInfo

    // Checks conditions that only a bug in the caller can violate: the index of the file, the sizes, the alignment with
    // O_DIRECT.
    void check(const ReadRequest &request) const;
    // To be called after each read. Drops the pages that the read may have left in the page cache.
    void drop_behind(const ReadRequest &request) const;
    // The current size of the file. The largest number if the kernel does not report it.
    [[nodiscard]] uint64_t bytes_now(uint32_t file) const;
    // See Reader::identity().
    [[nodiscard]] FileIdentity identity(uint32_t file) const;
};

// Opens all of `paths`. Throws Error(io) that names the file if a file cannot be opened, or does not support the direct
// I/O that is required.
OpenFiles open_files(const std::vector<std::string> &paths, DirectIo direct);

} // namespace larder

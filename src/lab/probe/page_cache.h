// page_cache.h — the pages of the measured files in the page cache (private to probe).
#pragma once

#include "base/unique_fd.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace larder {

class PageCache {
  public:
    // Throws Error(io) if a file cannot be opened.
    explicit PageCache(const std::vector<std::string> &paths);

    // Writes what has not been written to the disk yet, so that no measurement waits for it.
    void write_back() const;
    void drop() const;
    // Bytes in whole pages. None where the kernel does not tell.
    [[nodiscard]] std::optional<uint64_t> cached_bytes(uint32_t file, uint64_t offset, uint64_t bytes) const;
    [[nodiscard]] const std::vector<uint64_t> &file_bytes() const { return file_bytes_; }

  private:
    std::vector<UniqueFd> fds_;
    std::vector<uint64_t> file_bytes_;
};

} // namespace larder

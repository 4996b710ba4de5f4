// page_cache.h — the page cache of the measured files (private to probe).
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

    // Writes dirty pages to the disk, so that no measurement waits for it.
    void write_back() const;
    void drop() const;
    // In whole pages. None if the kernel does not report it.
    [[nodiscard]] std::optional<uint64_t> cached_bytes(uint32_t file, uint64_t offset, uint64_t bytes) const;
    [[nodiscard]] const std::vector<uint64_t> &file_bytes() const { return file_bytes_; }

  private:
    std::vector<UniqueFd> fds_;
    std::vector<uint64_t> file_bytes_;
};

} // namespace larder

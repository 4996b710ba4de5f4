// page_cache.h — what of some files is in the page cache (private to probe).
#pragma once

#include "base/unique_fd.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace larder {

class PageCache {
  public:
    // Throws Error(io) if one cannot be opened.
    explicit PageCache(const std::vector<std::string> &paths);

    // Writes what has yet to be written, so that no measurement waits for that.
    void write_back() const;
    void drop() const;
    // Bytes in whole pages; absent where the kernel does not tell.
    [[nodiscard]] std::optional<uint64_t> cached_bytes(uint32_t file, uint64_t offset, uint64_t bytes) const;
    [[nodiscard]] const std::vector<uint64_t> &file_bytes() const { return file_bytes_; }

  private:
    std::vector<UniqueFd> fds_;
    std::vector<uint64_t> file_bytes_;
    std::vector<bool> told_; // does mincore() say what is so
};

} // namespace larder

// metadata_source.h — buffered reads from the head of one file, for a reader that asks for a few bytes at a time.
#pragma once

#include "base/file_identity.h"
#include "base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace larder {

// Owns the descriptor that it reads from.
class MetadataSource {
  public:
    // Throws Error(io) if the file cannot be opened, Error(model) if it is empty or not a regular file.
    explicit MetadataSource(const std::string &path);

    // Of the open file, taken before the first read.
    [[nodiscard]] const FileIdentity &identity() const { return identity_; }
    [[nodiscard]] uint64_t bytes() const { return identity_.bytes; }
    [[nodiscard]] int read_errno() const { return read_errno_; } // 0: every read succeeded

    // Returns how many of `length` bytes at `offset` there were.
    size_t read(void *output, uint64_t offset, size_t length);

    // Throws Error(io) if the file has been written to since it was opened.
    void check_unchanged() const;

  private:
    bool fill(uint64_t offset);

    std::string path_;
    UniqueFd fd_;
    FileIdentity identity_;
    int read_errno_ = 0;
    std::vector<char> buffer_;
    uint64_t buffer_offset_ = 0;
    size_t buffer_filled_ = 0;
};

} // namespace larder

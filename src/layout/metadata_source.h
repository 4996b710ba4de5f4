// metadata_source.h — buffered reads from the beginning of a file, for a reader that reads a few bytes at a time.
#pragma once

#include "base/file_identity.h"
#include "base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace larder {

// Owns its file descriptor.
class MetadataSource {
  public:
    // Throws Error(io) if the file cannot be opened, Error(model) if it is empty or not a regular file.
    explicit MetadataSource(const std::string &path);

    // The identity of the open file, taken before the first read.
    [[nodiscard]] const FileIdentity &identity() const { return identity_; }
    [[nodiscard]] uint64_t bytes() const { return identity_.bytes; }
    [[nodiscard]] int read_errno() const { return read_errno_; } // 0: every read succeeded

    // Reads up to `length` bytes at `offset` and returns how many were read.
    size_t read(void *output, uint64_t offset, size_t length);

    // Throws Error(io) if the file has changed since it was opened.
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

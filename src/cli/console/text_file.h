// text_file.h — reads the text files that flags name.
#pragma once

#include "base/unique_fd.h"

#include <cstdint>
#include <string>

namespace larder {

// A file that is opened now and read later, when it is known how long a text may be. Errors name `flag`.
class TextFile {
  public:
    // Throws Error(io) if the file cannot be opened.
    TextFile(std::string path, std::string flag);

    // A file without any byte. False for a pipe.
    [[nodiscard]] bool is_empty() const;
    // The content, without a newline at its end. Call it once. Throws Error(io), or Error(usage) with the remedy if the
    // file has more than `bytes_max` bytes. Reads no more than that.
    [[nodiscard]] std::string read(uint64_t bytes_max, const std::string &remedy = "give a shorter text") const;

  private:
    std::string path_;
    std::string flag_;
    UniqueFd fd_;
};

// Opens and reads a file.
std::string read_text_file(const std::string &path, const std::string &flag, uint64_t bytes_max);

} // namespace larder

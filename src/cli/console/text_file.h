// text_file.h — reads the text files that flags name.
#pragma once

#include <cstdint>
#include <string>

namespace larder {

// The content of a file, without a newline at its end. Throws Error(io) that names `flag`, or Error(usage) if the file
// has more than `bytes_max` bytes. Reads no more than that.
std::string read_text_file(const std::string &path, const std::string &flag, uint64_t bytes_max);

} // namespace larder

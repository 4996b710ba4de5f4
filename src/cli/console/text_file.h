// text_file.h — texts that flags name files for.
#pragma once

#include <cstdint>
#include <string>

namespace larder {

// The content of a file, without the newline an editor leaves at its end. Throws Error(io) naming `flag`, and
// Error(usage) if there are more than `bytes_max` bytes, of which no more are read.
std::string read_text_file(const std::string &path, const std::string &flag, uint64_t bytes_max);

} // namespace larder

// write_file.h — files that a command writes: whole or not at all, and checked before the work begins.
#pragma once

#include <string>

namespace larder {

// Throws Error(io) naming `flag` if `path` cannot be written: in place, or as write_file() does it. Whatever is there
// stays as it is. Empty path: nothing.
void check_writable(const std::string &path, const std::string &flag);
void check_replaceable(const std::string &path, const std::string &flag);

// Writes `text` to a new file and gives it the name at which the links of `path` end, so that it changes at once or not
// at all; to a device or a pipe directly. Throws Error(io) naming `flag`.
void write_file(const std::string &path, const std::string &text, const std::string &flag);

} // namespace larder

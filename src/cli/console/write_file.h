// write_file.h — writes output files atomically, and checks before the work begins that they can be written.
#pragma once

#include <string>

namespace larder {

// Throw Error(io) that names `flag` if `path` cannot be written: in place, or by replacement as in write_file(). They
// do not change an existing file. An empty path is accepted.
void check_writable(const std::string &path, const std::string &flag);
void check_replaceable(const std::string &path, const std::string &flag);

// Writes `text` to a new file and renames it to the file at the end of the links of `path`, which replaces it
// atomically. Writes to a device or a pipe directly. Throws Error(io) that names `flag`.
void write_file(const std::string &path, const std::string &text, const std::string &flag);

} // namespace larder

// stats_file.h — the file that --stats names.
#pragma once

#include <mutex>
#include <string>

namespace larder {

class StatsFile {
  public:
    // Empty path: there is none, and write() does nothing. Throws Error(io) at once if the file cannot be written, so
    // that nobody finds out after an hour. What an earlier run wrote stays until write().
    explicit StatsFile(std::string path);

    // Replaces the content. A regular file changes at once or not at all. Throws Error(io). Any thread.
    void write(const std::string &text);

  private:
    std::string path_;
    std::mutex mutex_;
};

// Throws Error(io) naming `flag` if `path` cannot be written: in place, or as write_file() does it. Whatever is there
// stays as it is. Empty path: nothing.
void check_writable(const std::string &path, const std::string &flag);
void check_replaceable(const std::string &path, const std::string &flag);

// Writes `text` to a new file and gives it the name at which the links of `path` end, so that it changes at once or not
// at all; to a device or a pipe directly. Throws Error(io) naming `flag`.
void write_file(const std::string &path, const std::string &text, const std::string &flag);

} // namespace larder

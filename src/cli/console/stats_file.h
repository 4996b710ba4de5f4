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

} // namespace larder

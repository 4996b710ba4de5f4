// stats_file.h — the file of --stats.
#pragma once

#include <mutex>
#include <string>

namespace larder {

class StatsFile {
  public:
    // With an empty path, write() does nothing. Throws Error(io) at once if the file cannot be written, and not only
    // after a long run. The content of an earlier run stays until write().
    explicit StatsFile(std::string path);

    // Replaces the content; a regular file is replaced atomically. Throws Error(io). Any thread.
    void write(const std::string &text);

  private:
    std::string path_;
    std::mutex mutex_;
};

} // namespace larder

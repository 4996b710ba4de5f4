// write_watch.h — whether somebody wrote to a model's files since they were opened (private to runtime).
//
// The times of a file do not tell: mtime can be set back, and ctime also changes when a hard link is added or removed.
// The kernel reports writes, truncations and the close of a descriptor that was open for writing (inotify). It does not
// report a write through a mapping before that mapping and its descriptor are gone.
//
// Threads: one at a time.
#pragma once

#include "base/unique_fd.h"

#include <string>
#include <vector>

namespace larder {

class WriteWatch {
  public:
    // Watches the files that the paths lead to now. Throws nothing: where files cannot be watched, may_have_written()
    // is true.
    explicit WriteWatch(const std::vector<std::string> &paths) noexcept;

    // Once true, it stays true.
    [[nodiscard]] bool may_have_written() noexcept;

  private:
    UniqueFd events_;
    bool written_ = false;
};

} // namespace larder

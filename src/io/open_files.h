// open_files.h — the files of a Reader, opened with or without direct I/O.
#pragma once

#include "base/unique_fd.h"
#include "io/io.h"

#include <string>
#include <vector>

namespace larder {

struct OpenFiles {
    std::vector<UniqueFd> fds;
    bool direct = false; // of all of them or of none
    std::string notice;  // why not direct, if that was wished for

    // Checks what only a bug in the caller can break: the file's index, the sizes, and the alignment under direct I/O.
    void check(const ReadRequest &request) const;
    // Behind a buffered read: lets go of what it left in the page cache. Nothing to do under direct I/O.
    void drop_cached(const ReadRequest &request) const;
};

// Opens all or throws Error(io) naming the file. Whether the file system takes O_DIRECT shows at open() or only at the
// first read, so one block of each file is read to find out.
OpenFiles open_files(const std::vector<std::string> &paths, DirectIo direct);

} // namespace larder

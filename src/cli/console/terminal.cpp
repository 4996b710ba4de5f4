#include "cli/console/terminal.h"

#include "base/error.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace larder {

void say_text(const std::string &text) noexcept {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
}

void print_now(const std::string &text) {
    errno = 0;
    const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (!written || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
        const bool full = errno == ENOSPC || errno == EDQUOT;
        throw Error::from_errno(errno != 0 ? errno : EIO, "cannot write to standard output",
                                full ? "free some space there"
                                     : "redirect it to a file that can be written, for example with > FILE");
    }
}

void fill_standard_streams() {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            // open() returns the lowest free descriptor, which is this one. It is read-only, so writing to a closed
            // output still fails.
            [[maybe_unused]] const int opened = open("/dev/null", O_RDONLY);
        }
    }
}

} // namespace larder

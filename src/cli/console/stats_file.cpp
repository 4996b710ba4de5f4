#include "cli/console/stats_file.h"

#include "base/error.h"
#include "base/unique_fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace larder {

namespace {

Error cannot_write(const std::string &path, const std::string &flag) {
    const bool full = errno == ENOSPC || errno == EDQUOT;
    return Error::from_errno(errno, fmt::format("{}: cannot write {}", flag, path),
                             full ? "free some space or name another file" : "name a file that can be written");
}

void write_all(int fd, const std::string &text, const std::string &path, const std::string &flag) {
    size_t done = 0;
    while (done < text.size()) {
        const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            throw cannot_write(path, flag);
        }
        done += static_cast<size_t>(n);
    }
}

bool is_regular(const std::string &path) {
    struct stat info = {};
    return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Devices and pipes cannot be replaced by a renamed file.
bool is_special(const std::string &path) {
    struct stat info = {};
    return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

} // namespace

void write_file(const std::string &path, const std::string &text, const std::string &flag) {
    if (is_special(path)) {
        const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
        if (!fd.valid()) {
            throw cannot_write(path, flag);
        }
        write_all(fd.get(), text, path, flag);
        return;
    }
    const std::string next = path + ".tmp";
    try {
        const UniqueFd fd(open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
        if (!fd.valid()) {
            throw cannot_write(path, flag);
        }
        write_all(fd.get(), text, path, flag);
        if (std::rename(next.c_str(), path.c_str()) != 0) {
            throw cannot_write(path, flag);
        }
    } catch (const Error &) {
        unlink(next.c_str());
        throw;
    }
}

void check_writable(const std::string &path, const std::string &flag) {
    if (path.empty()) {
        return;
    }
    // A pipe without a reader is refused instead of waited for.
    const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644));
    if (!fd.valid()) {
        throw cannot_write(path, flag);
    }
    if (is_regular(path)) {
        unlink(path.c_str()); // figures of an earlier run must not pass for those of one that fails to start
    }
}

StatsFile::StatsFile(std::string path) : path_(std::move(path)) { check_writable(path_, "--stats"); }

void StatsFile::write(const std::string &text) {
    if (!path_.empty()) {
        const std::lock_guard lock(mutex_);
        write_file(path_, text, "--stats");
    }
}

} // namespace larder

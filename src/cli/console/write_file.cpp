#include "cli/console/write_file.h"

#include "base/error.h"
#include "base/unique_fd.h"
#include "cli/console/output_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

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

// A rename would replace the device or pipe itself.
bool is_special(const std::string &path) {
    struct stat info = {};
    return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

// A new file in the directory of the file to which `path` leads, so that a link stays a link. It has an unused name,
// and is removed unless it was renamed.
class NewFile {
  public:
    NewFile(const std::string &path, const std::string &flag) : target_(end_of_links(path)) {
        constexpr int attempts = 100;
        std::error_code error;
        if (std::filesystem::is_symlink(target_, error)) {
            errno = ELOOP;
            throw cannot_write(path, flag);
        }
        for (int i = 0; i < attempts && !fd_.valid(); i++) {
            name_ = fmt::format("{}.{}-{}.tmp", target_, getpid(), i);
            fd_ = UniqueFd(open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
            if (!fd_.valid() && errno != EEXIST) {
                break;
            }
        }
        if (!fd_.valid()) {
            throw cannot_write(path, flag);
        }
    }
    ~NewFile() { unlink(name_.c_str()); }
    NewFile(const NewFile &) = delete;
    NewFile &operator=(const NewFile &) = delete;
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] bool take_its_place() const { return std::rename(name_.c_str(), target_.c_str()) == 0; }

  private:
    std::string target_;
    std::string name_;
    UniqueFd fd_;
};

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
    const NewFile next(path, flag);
    write_all(next.fd(), text, path, flag);
    if (!next.take_its_place()) {
        throw cannot_write(path, flag);
    }
}

void check_writable(const std::string &path, const std::string &flag) {
    struct stat info = {};
    if (path.empty()) {
        return;
    }
    if (stat(path.c_str(), &info) != 0) {
        const NewFile can_be_made(path, flag);
        return;
    }
    // Without O_NONBLOCK, open() would wait for a reader of the pipe.
    const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.valid()) {
        throw cannot_write(path, flag);
    }
}

void check_replaceable(const std::string &path, const std::string &flag) {
    check_writable(path, flag);
    if (!path.empty() && !is_special(path)) {
        const NewFile can_be_made(path, flag);
    }
}

} // namespace larder

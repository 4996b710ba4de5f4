#include "cli/console/text_file.h"

#include "base/bytes.h"
#include "base/error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace larder {

namespace {

Error cannot_read(const std::string &path, const std::string &flag) {
    return Error::from_errno(errno, fmt::format("{}: cannot read {}", flag, path), "check the path");
}

} // namespace

TextFile::TextFile(std::string path, std::string flag)
    : path_(std::move(path)), flag_(std::move(flag)), fd_(open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (!fd_.valid()) {
        throw cannot_read(path_, flag_);
    }
    struct stat status {};
    if (fstat(fd_.get(), &status) == 0 && S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        throw cannot_read(path_, flag_);
    }
}

bool TextFile::is_empty() const {
    struct stat status {};
    return fstat(fd_.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 0;
}

std::string TextFile::read(uint64_t bytes_max, const std::string &remedy) const {
    std::string text;
    std::array<char, 65536> buffer{};
    for (;;) {
        const ssize_t n =
            ::read(fd_.get(), buffer.data(), std::min<uint64_t>(buffer.size(), bytes_max + 1 - text.size()));
        if (n < 0 && errno != EINTR) {
            throw cannot_read(path_, flag_);
        }
        if (n == 0) {
            break;
        }
        text.append(buffer.data(), n > 0 ? static_cast<size_t>(n) : 0);
        if (text.size() > bytes_max) {
            throw Error(ErrorKind::usage,
                        fmt::format("{}: {} is larger than {}", flag_, path_, format_bytes(bytes_max)), remedy);
        }
    }
    if (text.ends_with('\n')) {
        text.pop_back();
    }
    return text;
}

std::string read_text_file(const std::string &path, const std::string &flag, uint64_t bytes_max) {
    return TextFile(path, flag).read(bytes_max);
}

} // namespace larder

#include "base/error.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace larder {

std::string printable(std::string_view text) {
    std::string line;
    line.reserve(text.size());
    for (size_t i = 0; i < text.size(); i++) {
        const auto c = static_cast<unsigned char>(text[i]);
        const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
        if (c == 0xC2 && next >= 0x80 && next < 0xA0) { // U+0080 to U+009F
            line += '?';
            i++;
        } else {
            line += c < 0x20 || c == 0x7f ? '?' : text[i];
        }
    }
    return line;
}

int exit_code(ErrorKind kind) {
    switch (kind) {
    case ErrorKind::usage:
        return 2;
    case ErrorKind::budget:
        return 3;
    default:
        return 1;
    }
}

Error::Error(ErrorKind kind, std::string what, std::string remedy)
    : kind_(kind), message_(printable(what)), remedy_(printable(remedy)),
      line_(remedy_.empty() ? message_ : fmt::format("{}; {}", message_, remedy_)) {}

Error Error::from_errno(int errno_value, std::string_view doing, std::string remedy) {
    return {ErrorKind::io, fmt::format("{}: {}", doing, std::generic_category().message(errno_value)),
            std::move(remedy)};
}

Error Error::within(std::string_view context) const {
    return {kind_, fmt::format("{}: {}", context, message_), remedy_};
}

namespace {

const char *remedy_for_opening(int errno_value) {
    switch (errno_value) {
    case EACCES:
    case EPERM:
        return "check the permissions of the file and of the folders above it";
    case EMFILE:
        return "raise the limit of open files (ulimit -n)";
    case ENFILE:
        return "raise the system's limit of open files (sysctl fs.file-max), or close other programs";
    case EIO:
    case ENXIO:
    case EUCLEAN: // a damaged file system
        return "check the disk (dmesg)";
    case ENOMEM:
        return "free some memory";
    case ESTALE:
    case ENOTCONN:
    case ETIMEDOUT:
        return "check the network or FUSE file system, and mount it again";
    default:
        return "check the path";
    }
}

} // namespace

Error cannot_open(std::string_view path, int errno_value) {
    return Error::from_errno(errno_value, fmt::format("cannot open {}", path), remedy_for_opening(errno_value));
}

} // namespace larder

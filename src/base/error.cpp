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

std::string printable(std::string_view text, size_t characters_max) {
    constexpr size_t character_bytes_max = 4; // of UTF-8; text that is not UTF-8 is limited by its bytes
    size_t end = 0;
    for (size_t characters = 0; end < text.size(); end++) {
        const bool begins_character = (static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80U;
        if (begins_character && ++characters > characters_max) {
            break;
        }
        if (end >= characters_max * character_bytes_max) {
            break;
        }
    }
    return printable(text.substr(0, end)) + (end < text.size() ? "…" : "");
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

namespace {

std::vector<Remedy> one_or_none(std::string text) {
    std::vector<Remedy> remedies;
    if (!text.empty()) {
        remedies.push_back({RemedyKind::other, std::move(text)});
    }
    return remedies;
}

std::string joined(const std::vector<Remedy> &remedies) {
    std::string text;
    for (const Remedy &remedy : remedies) {
        text += text.empty() ? "" : ", or ";
        text += printable(remedy.text);
    }
    return text;
}

// Null for all other errno values.
const char *remedy_for_limit(int errno_value) {
    switch (errno_value) {
    case EMFILE:
        return "raise the limit of open files (ulimit -n)";
    case ENFILE:
        return "raise the system's limit of open files (sysctl fs.file-max), or close other programs";
    case EFBIG:
        return "raise the limit of file sizes (ulimit -f)";
    default:
        return nullptr;
    }
}

} // namespace

Error::Error(ErrorKind kind, std::string what, std::vector<Remedy> remedies)
    : kind_(kind), message_(printable(what)), remedies_(std::move(remedies)), remedy_(joined(remedies_)),
      line_(remedy_.empty() ? message_ : fmt::format("{}; {}", message_, remedy_)) {}

Error::Error(ErrorKind kind, std::string what, std::string remedy)
    : Error(kind, std::move(what), one_or_none(std::move(remedy))) {}

Error Error::from_errno(int errno_value, std::string_view doing, std::string remedy) {
    const char *of_limit = remedy_for_limit(errno_value);
    return {ErrorKind::io, fmt::format("{}: {}", doing, std::generic_category().message(errno_value)),
            of_limit != nullptr ? of_limit : std::move(remedy)};
}

Error Error::within(std::string_view context) const {
    return {kind_, fmt::format("{}: {}", context, message_), remedies_};
}

Error Error::with_remedy(Remedy remedy) const {
    std::vector<Remedy> remedies = remedies_;
    remedies.push_back(std::move(remedy));
    return with_remedies(std::move(remedies));
}

Error Error::without_remedies(RemedyKind kind) const {
    std::vector<Remedy> remedies = remedies_;
    std::erase_if(remedies, [kind](const Remedy &remedy) { return remedy.kind == kind; });
    return with_remedies(std::move(remedies));
}

Error Error::with_remedies(std::vector<Remedy> remedies) const { return {kind_, message_, std::move(remedies)}; }

const Remedy *Error::find_remedy(RemedyKind kind) const noexcept {
    for (const Remedy &remedy : remedies_) {
        if (remedy.kind == kind) {
            return &remedy;
        }
    }
    return nullptr;
}

namespace {

const char *remedy_for_opening(int errno_value) {
    switch (errno_value) {
    case EACCES:
    case EPERM:
        return "check the permissions of the file and of the folders above it";
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

#include "cli/console/text_file.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/unique_fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace larder {

std::string read_text_file(const std::string &path, const std::string &flag, uint64_t bytes_max) {
    const auto fail = [&] {
        return Error::from_errno(errno, fmt::format("{}: cannot read {}", flag, path), "check the path");
    };
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) {
        throw fail();
    }
    std::string text;
    std::array<char, 65536> buffer{};
    for (;;) {
        const ssize_t n = read(fd.get(), buffer.data(), buffer.size());
        if (n < 0 && errno != EINTR) {
            throw fail();
        }
        if (n == 0) {
            break;
        }
        text.append(buffer.data(), n > 0 ? static_cast<size_t>(n) : 0);
        if (text.size() > bytes_max) {
            throw Error(ErrorKind::usage, fmt::format("{}: {} is larger than {}", flag, path, format_bytes(bytes_max)),
                        "give a shorter text");
        }
    }
    if (text.ends_with('\n')) {
        text.pop_back();
    }
    return text;
}

} // namespace larder

#include "base/error.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

namespace larder {

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
    : kind_(kind), message_(std::move(what)), remedy_(std::move(remedy)),
      line_(remedy_.empty() ? message_ : fmt::format("{}; {}", message_, remedy_)) {}

Error Error::from_errno(int errno_value, std::string_view doing, std::string remedy) {
    return {ErrorKind::io, fmt::format("{}: {}", doing, std::generic_category().message(errno_value)),
            std::move(remedy)};
}

Error Error::within(std::string_view context) const {
    return {kind_, fmt::format("{}: {}", context, message_), remedy_};
}

} // namespace larder

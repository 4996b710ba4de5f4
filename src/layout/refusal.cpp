#include "layout/refusal.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder {

std::string printable(std::string_view text) {
    std::string line(text);
    std::replace_if(
        line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
    return line;
}

Error refusal(std::string_view path, std::string_view what, std::string remedy) {
    return {ErrorKind::model, printable(fmt::format("{}: {}", path, what)), std::move(remedy)};
}

} // namespace larder

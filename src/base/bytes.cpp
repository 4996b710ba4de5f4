#include "base/bytes.h"

#include "base/error.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace larder {

namespace {

// The number of bytes of a unit ("", "k", "kb", "kib", in any case); 0 for an unknown unit.
uint64_t unit_factor(std::string_view unit) {
    if (unit.empty() || unit == "B" || unit == "b") {
        return 1;
    }
    const auto letter = static_cast<char>(std::tolower(static_cast<unsigned char>(unit[0])));
    std::string rest;
    for (const char c : unit.substr(1)) {
        rest += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    if (!rest.empty() && rest != "b" && rest != "ib") {
        return 0;
    }
    switch (letter) {
    case 'k':
        return KiB;
    case 'm':
        return MiB;
    case 'g':
        return GiB;
    case 't':
        return 1024 * GiB;
    default:
        return 0;
    }
}

} // namespace

std::string format_bytes(uint64_t bytes) {
    static constexpr std::array<const char *, 5> units = {"B", "KiB", "MiB", "GiB", "TiB"};
    if (bytes < KiB) {
        return fmt::format("{} B", bytes);
    }
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1024.0 && unit + 1 < units.size()) {
        value /= 1024.0;
        unit++;
    }
    std::string number = fmt::format("{:.2f}", value);
    number.erase(number.find_last_not_of('0') + 1);
    if (number.back() == '.') {
        number.pop_back();
    }
    return fmt::format("{} {}", number, units.at(unit));
}

uint64_t parse_bytes(std::string_view text, std::string_view flag) {
    const auto refuse = [&] {
        return Error(ErrorKind::usage, fmt::format("{}: '{}' is not a size", flag, text),
                     "write it like 8G, 8GiB, 8192M or 1.5G");
    };
    double number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (code != std::errc() || !std::isfinite(number) || number <= 0) {
        throw refuse();
    }
    const uint64_t factor = unit_factor(text.substr(static_cast<size_t>(end - text.data())));
    const double bytes = number * static_cast<double>(factor);
    if (factor == 0 || bytes < 1 || bytes >= 9.2e18) {
        throw refuse();
    }
    return static_cast<uint64_t>(bytes);
}

double parse_percent(std::string_view text, std::string_view flag) {
    double percent = 0;
    const char *const end = text.ends_with('%') ? text.data() + text.size() - 1 : text.data();
    const auto [stopped, code] = std::from_chars(text.data(), end, percent, std::chars_format::fixed);
    if (code != std::errc() || stopped != end || !(percent > 0 && percent <= 100)) {
        throw Error(ErrorKind::usage, fmt::format("{}: '{}' is not a share above 0 % and up to 100 %", flag, text),
                    "write it like 50% or 12.5%");
    }
    return percent / 100;
}

} // namespace larder

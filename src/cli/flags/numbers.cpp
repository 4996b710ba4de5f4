#include "cli/flags/numbers.h"

#include "base/error.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

namespace larder {

int64_t parse_integer(const std::string &text, const std::string &flag, int64_t min, int64_t max) {
    int64_t value = 0;
    const char *const end = text.data() + text.size();
    const auto [stopped, code] = std::from_chars(text.data(), end, value);
    const size_t first_digit = text.starts_with('-') ? 1 : 0;
    const bool padded = text.size() > first_digit + 1 && text[first_digit] == '0'; // other parsers read it as octal
    if (text.empty() || stopped != end || code == std::errc::invalid_argument || padded) {
        throw Error(ErrorKind::usage,
                    fmt::format("{}: '{}' is not a whole number", flag, printable(text, quoted_characters_max)),
                    fmt::format("give one from {} to {}", min, max));
    }
    if (code == std::errc::result_out_of_range || value < min || value > max) {
        throw Error(
            ErrorKind::usage,
            fmt::format("{}: {} is not in the range {} to {}", flag, printable(text, quoted_characters_max), min, max),
            "give a number in that range");
    }
    return value;
}

double parse_real(const std::string &text, const std::string &flag, double min, double max) {
    double value = 0;
    const char *const end = text.data() + text.size();
    const auto [stopped, code] = std::from_chars(text.data(), end, value);
    if (text.empty() || stopped != end || code != std::errc() || !std::isfinite(value)) {
        throw Error(ErrorKind::usage,
                    fmt::format("{}: '{}' is not a number", flag, printable(text, quoted_characters_max)),
                    fmt::format("give one from {:g} to {:g}", min, max));
    }
    if (value < min || value > max) {
        throw Error(ErrorKind::usage,
                    fmt::format("{}: {} is not in the range {:g} to {:g}", flag, printable(text, quoted_characters_max),
                                min, max),
                    "give a number in that range");
    }
    return value;
}

namespace detail {

CLI::Option *add_text_option(CLI::App &command, const std::string &names, const std::string &description,
                             const std::string &type, const std::function<void(const std::string &text)> &take) {
    return command.add_option_function<std::string>(names, take, description)->type_name(type);
}

CLI::Option *add_list_option(CLI::App &command, const std::string &names, const std::string &description,
                             const std::string &type,
                             const std::function<void(const std::vector<std::string> &texts)> &take) {
    return command.add_option_function<std::vector<std::string>>(names, take, description)
        ->delimiter(',')
        ->take_all()
        ->type_name(type);
}

std::string long_name(const std::string &names) { return names.substr(0, names.find(',')); }

} // namespace detail

CLI::Option *add_integers(CLI::App &command, const std::string &names, std::vector<uint32_t> &values, int64_t min,
                          int64_t max, const std::string &description) {
    return detail::add_list_option(
        command, names, description, "N,…",
        [&values, min, max, flag = detail::long_name(names)](const std::vector<std::string> &texts) {
            values.clear();
            for (const std::string &text : texts) {
                values.push_back(static_cast<uint32_t>(parse_integer(text, flag, min, max)));
            }
        });
}

CLI::Option *add_real(CLI::App &command, const std::string &names, float &value, double min, double max,
                      const std::string &description) {
    return detail::add_text_option(command, names, description, "X",
                                   [&value, min, max, flag = detail::long_name(names)](const std::string &text) {
                                       value = static_cast<float>(parse_real(text, flag, min, max));
                                   });
}

} // namespace larder

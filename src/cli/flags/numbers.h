// numbers.h — options with numbers, parsed strictly: text that is not entirely a number, does not fit the type, or is
// out of range is refused with the option's name. (CLI11 reads an empty text as 0 and "010" as 8.)
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace larder {

// Decimal digits, with a minus sign if `min` is negative. Throws Error(usage) that names `flag`.
int64_t parse_integer(const std::string &text, const std::string &flag, int64_t min, int64_t max);
// A finite number in decimal or scientific notation. Throws Error(usage) that names `flag`.
double parse_real(const std::string &text, const std::string &flag, double min, double max);

namespace detail {

CLI::Option *add_text_option(CLI::App &command, const std::string &names, const std::string &description,
                             const std::string &type, const std::function<void(const std::string &text)> &take);
CLI::Option *add_list_option(CLI::App &command, const std::string &names, const std::string &description,
                             const std::string &type,
                             const std::function<void(const std::vector<std::string> &texts)> &take);
std::string long_name(const std::string &names); // the name used in errors: the first long name

} // namespace detail

// Adds an option for an integer from `min` to `max`. Without the option, `value` does not change. Help shows no
// default.
template <typename Integer>
CLI::Option *add_integer(CLI::App &command, const std::string &names, Integer &value, int64_t min, int64_t max,
                         const std::string &description) {
    return detail::add_text_option(command, names, description, "N",
                                   [&value, min, max, flag = detail::long_name(names)](const std::string &text) {
                                       value = static_cast<Integer>(parse_integer(text, flag, min, max));
                                   });
}
// The same for a list, "512,128".
CLI::Option *add_integers(CLI::App &command, const std::string &names, std::vector<uint32_t> &values, int64_t min,
                          int64_t max, const std::string &description);

CLI::Option *add_real(CLI::App &command, const std::string &names, float &value, double min, double max,
                      const std::string &description);

} // namespace larder

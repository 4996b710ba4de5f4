// terminal.h — what larder says to people, on standard error, and the answer on standard output.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace larder {

// To standard error. Never throws and never fails: where nobody listens there is nobody to tell.
void say_text(const std::string &text) noexcept;
template <typename... Args> void say(fmt::format_string<Args...> format, Args &&...args) {
    say_text(fmt::format(format, std::forward<Args>(args)...));
}

// To standard output at once. Throws Error(io) if it cannot be written: a lost answer must not look like a short one.
void print_now(const std::string &text);

// Opens /dev/null in the place of a closed standard stream, so that no file of ours takes its number.
void fill_standard_streams();

} // namespace larder

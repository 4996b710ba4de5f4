// terminal.h — messages on standard error, and the answer on standard output.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace larder {

// Writes to standard error. Never throws; write errors are ignored, because there is no other place for a message.
void say_text(const std::string &text) noexcept;
template <typename... Args> void say(fmt::format_string<Args...> format, Args &&...args) {
    say_text(fmt::format(format, std::forward<Args>(args)...));
}

// Writes to standard output without buffering. Throws Error(io) if that fails: a truncated answer must not look like a
// complete one.
void print_now(const std::string &text);

// Opens /dev/null for each closed standard stream, so that no other file gets its descriptor.
void fill_standard_streams();

} // namespace larder

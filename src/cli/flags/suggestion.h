// suggestion.h — the name that a user who mistyped one may have meant.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace larder {

// The name with the fewest letters to change, add, remove or swap; empty if all are too far off.
std::string nearest_name(std::string_view word, const std::vector<std::string> &names);

// "did you mean --prompt? " for an argument of `command` that is no flag of it, or an empty text.
std::string flag_suggestion(const CLI::App &command, std::string_view argument);
// The same for a command of `app`.
std::string command_suggestion(const CLI::App &app, std::string_view word);

} // namespace larder

// suggestion.h — suggests a name for a mistyped one.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace larder {

// The name with the smallest edit distance (change, add, remove or swap a letter); empty if all are too far.
std::string nearest_name(std::string_view word, const std::vector<std::string> &names);

// "did you mean --prompt? " for an argument that is not a flag of `command`; empty if no flag is near.
std::string flag_suggestion(const CLI::App &command, std::string_view argument);
// The same for a command of `app`.
std::string command_suggestion(const CLI::App &app, std::string_view word);

} // namespace larder

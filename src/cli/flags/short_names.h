// short_names.h — llama.cpp spells some short flags with several letters (-ub, -fa, -ctk), which CLI11 knows nothing
// of.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

namespace larder {

// The arguments with those short names replaced by their long ones; what is the value of an option of `app`'s command
// stays as it is, and so does all after "--". Throws Error(usage) for others of the kind, which
// taken letter by letter would mean something else, and for llama.cpp's flags that larder cannot have, with what to do
// instead.
std::vector<std::string> with_long_names(const CLI::App &app, int argc, char **argv);

// Prints help with those short names beside the long ones.
std::shared_ptr<CLI::Formatter> help_formatter();

} // namespace larder

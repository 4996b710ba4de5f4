// short_names.h — llama.cpp's short flags with several letters (-ub, -fa, -ctk), which CLI11 does not support.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

namespace larder {

// The arguments with those short names replaced by the long ones. Values of options of `app`'s command and everything
// after "--" stay unchanged. Throws Error(usage) for other arguments of this form, which would mean something else if
// parsed letter by letter. Also throws it for llama.cpp's flags that larder does not support; the error names the
// alternative.
std::vector<std::string> with_long_names(const CLI::App &app, int argc, char **argv);

// Prints help with those short names next to the long ones.
std::shared_ptr<CLI::Formatter> help_formatter();

} // namespace larder

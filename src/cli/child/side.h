// side.h — how a larder process that another one started tells it what it found: JSON, an object a line.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>

namespace larder {

// Writes {"what": value} as one line to standard output, now.
void tell(const char *what, nlohmann::ordered_json value);

// Runs `measure`; an Error it throws is told as "error". Returns the exit code.
int run_side(const std::function<void()> &measure);

} // namespace larder

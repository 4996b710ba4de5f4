// presets.h — shapes of models in common use, for --shape.
#pragma once

#include "architectures.h"

#include <span>
#include <string_view>

namespace larder::make_recite {

struct Preset {
    std::string_view name;
    std::string_view architecture;
    std::string_view what; // for --help
    make_model::Shape shape;
};

std::span<const Preset> presets();

// Throws Error(usage) that lists the known names.
const Preset &find_preset(std::string_view name);

// The architecture, if its models can recite. Otherwise throws Error(usage) that lists those that can.
const make_model::Architecture &find_reciter(std::string_view name);

} // namespace larder::make_recite

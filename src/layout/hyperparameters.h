// hyperparameters.h — compares hyperparameters of the architecture ("qwen35moe.ssm.inner_size") with the tensors.
//
// llama.cpp checks the shapes of tensors against most hyperparameters. It uses others unchecked: as a divisor, as the
// size of a state, as the step of a loop. This module refuses values that no valid file can have. Every key is
// optional, and a file may have keys that its architecture does not use: llama.cpp's writer stores 0 for them.
#pragma once

#include "layout/layout.h"
#include "layout/metadata.h"

namespace larder {

// Throws Error(model) that names the key.
void check_hyperparameters(const ModelLayout &layout, const Metadata &keys);

} // namespace larder

// hyperparameters.h — the architecture's own numbers ("qwen35moe.ssm.inner_size") compared with the tensors.
//
// llama.cpp compares the shapes of tensors with most of these numbers. It uses others unseen: as a divisor, as the size
// of a state, as the step of a loop. This refuses what cannot be true of any file. A key is optional everywhere, and a
// file may have keys that its architecture does not read: llama.cpp's own writer puts 0 for all of them.
#pragma once

#include "layout/layout.h"
#include "layout/metadata.h"

namespace larder {

// Throws Error(model) that names the key.
void check_hyperparameters(const ModelLayout &layout, const Metadata &keys);

} // namespace larder

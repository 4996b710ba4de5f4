// missing_tensors.h — tensors that llama.cpp takes for optional, though its graph needs them.
//
// llama.cpp refuses a file without a tensor that its architecture requires. Where an architecture has several ways to
// store the same weights, each of them is optional, and llama.cpp reads through a null pointer in a file with none.
#pragma once

#include "layout/layout.h"

namespace larder {

// Throws Error(model) that names the layer and the tensor.
void check_missing_tensors(const ModelLayout &layout);

} // namespace larder

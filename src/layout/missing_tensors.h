// missing_tensors.h — tensors that are optional for llama.cpp's loader, but required by its graph.
//
// llama.cpp refuses a file without a tensor that its architecture requires. If an architecture can store the same
// weights in several ways, each of these tensors is optional. In a file that has none of them, llama.cpp dereferences a
// null pointer.
#pragma once

#include "layout/layout.h"

namespace larder {

// Throws Error(model) that names the layer and the tensor.
void check_missing_tensors(const ModelLayout &layout);

} // namespace larder

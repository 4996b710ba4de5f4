// types.h — whether ggml can compute with the type of each tensor.
//
// GGUF allows any type for any tensor, and llama.cpp loads them all; ggml's CPU code calls a null function, which ends
// the process, where it has no code for a type. What ggml can do is asked of ggml, type by type.
#pragma once

#include "layout/layout.h"

namespace larder {

// What the graph does with a tensor, as far as its name tells.
enum class TensorUse {
    matrix, // is multiplied with activations; small vectors that are multiplied or added too
    rows,   // rows of it are looked up, as those of the token embedding
    both,   // a token embedding that is the output matrix too
    vector, // a norm, a bias or a scale: combined with activations element by element
    ids,    // 32-bit numbers that are looked up and select experts
    table,  // numbers that only llama.cpp's own code reads
};

TensorUse use_of(const ModelLayout &layout, const TensorInfo &tensor);

// `type` is a ggml_type.
bool ggml_can(TensorUse use, int type);

// Throws Error(model) that names the first tensor whose type its use does not allow.
void check_types(const ModelLayout &layout);

} // namespace larder

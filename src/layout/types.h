// types.h — whether ggml can compute with the type of each tensor.
//
// GGUF allows any type for any tensor, and llama.cpp loads all of them. If ggml's CPU code has no function for a type,
// it calls a null pointer and the process ends. The supported types are queried from ggml.
#pragma once

#include "layout/layout.h"

namespace larder {

// The use of a tensor in the graph, as far as its name shows.
enum class TensorUse {
    matrix, // multiplied with activations; also small vectors that are multiplied or added
    rows,   // rows are looked up, as in the token embedding
    both,   // a token embedding that is also the output matrix
    vector, // a norm, bias or scale: combined with activations element by element
    ids,    // 32-bit integers that are looked up and select experts
    table,  // numbers that only llama.cpp's own code reads
};

TensorUse use_of(const ModelLayout &layout, const TensorInfo &tensor);

// Whether ggml supports the type for this use. `type` is a ggml_type.
bool ggml_can(TensorUse use, int type);

// Throws Error(model) that names the first tensor whose type ggml does not support for its use.
void check_types(const ModelLayout &layout);

} // namespace larder

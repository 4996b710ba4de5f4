// tensor_list.h — lists the tensors that a model with given hyper-parameters has in llama.cpp.
#pragma once

#include <ggml.h>
#include <gguf.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace larder::make_model {

struct TensorShape {
    std::string name;
    std::array<int64_t, GGML_MAX_DIMS> extent; // ggml's order: the length of a row first
};

// The tensors, in the order in which llama.cpp creates them. `metadata` must have the hyper-parameters and the
// vocabulary. `optional` names the wanted tensors that the architecture does not require. Allocates no memory of the
// size of a weight. Throws Error(engine) with llama.cpp's reason if it refuses the model.
std::vector<TensorShape> list_tensors(const gguf_context *metadata, const std::vector<std::string> &optional);

} // namespace larder::make_model

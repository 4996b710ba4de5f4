// tensor_list.h — asks llama.cpp which tensors a model of given hyper-parameters has.
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
    std::array<int64_t, GGML_MAX_DIMS> extent; // ggml's order: a row's length first
};

// The tensors, in the order in which llama.cpp creates them. `metadata` has the hyper-parameters and the vocabulary;
// `optional` names the tensors wanted beyond those that the architecture cannot do without.
// Nothing the size of a weight is allocated. Throws Error(engine) with llama.cpp's reason if it refuses the model.
std::vector<TensorShape> list_tensors(const gguf_context *metadata, const std::vector<std::string> &optional);

} // namespace larder::make_model

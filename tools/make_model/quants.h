// quants.h — the ggml type of each tensor in each quantisation.
#pragma once

#include <ggml.h>
#include <llama.h>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace larder::make_model {

struct Quant {
    std::string_view name;
    llama_ftype file_type;
    ggml_type base; // attention, dense feed-forward, shared experts, embedding
    ggml_type output;
    ggml_type expert;                     // gate and up
    std::array<ggml_type, 2> expert_down; // of even and odd layers
};

std::span<const Quant> quants();

// Throws Error(usage) that lists the known names.
const Quant &find_quant(std::string_view name);

// The type of a tensor. If a row is not a multiple of the block size, a type with smaller blocks is used.
ggml_type tensor_type(const Quant &quant, std::string_view tensor, const std::array<int64_t, GGML_MAX_DIMS> &extent);

} // namespace larder::make_model

#include "quants.h"

#include "base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace larder::make_model {
namespace {

constexpr ggml_type F32 = GGML_TYPE_F32;
constexpr ggml_type F16 = GGML_TYPE_F16;
constexpr ggml_type BF16 = GGML_TYPE_BF16;
constexpr ggml_type Q8_0 = GGML_TYPE_Q8_0;
constexpr ggml_type Q4_0 = GGML_TYPE_Q4_0;
constexpr ggml_type Q2_K = GGML_TYPE_Q2_K;
constexpr ggml_type Q3_K = GGML_TYPE_Q3_K;
constexpr ggml_type Q4_K = GGML_TYPE_Q4_K;
constexpr ggml_type Q5_K = GGML_TYPE_Q5_K;
constexpr ggml_type Q6_K = GGML_TYPE_Q6_K;
constexpr ggml_type MXFP4 = GGML_TYPE_MXFP4;
constexpr ggml_type IQ4_NL = GGML_TYPE_IQ4_NL;
constexpr ggml_type IQ4_XS = GGML_TYPE_IQ4_XS;
constexpr ggml_type IQ3_S = GGML_TYPE_IQ3_S;
constexpr ggml_type IQ2_XS = GGML_TYPE_IQ2_XS;

// name, file type, base, output, expert gate and up, expert down of even and odd layers
constexpr std::array table = {
    Quant{"f32", LLAMA_FTYPE_ALL_F32, F32, F32, F32, {F32, F32}},
    Quant{"f16", LLAMA_FTYPE_MOSTLY_F16, F16, F16, F16, {F16, F16}},
    Quant{"bf16", LLAMA_FTYPE_MOSTLY_BF16, BF16, BF16, BF16, {BF16, BF16}},
    Quant{"q8_0", LLAMA_FTYPE_MOSTLY_Q8_0, Q8_0, Q8_0, Q8_0, {Q8_0, Q8_0}},
    Quant{"q4_0", LLAMA_FTYPE_MOSTLY_Q4_0, Q4_0, Q6_K, Q4_0, {Q4_0, Q4_0}},
    Quant{"q2_k", LLAMA_FTYPE_MOSTLY_Q2_K, Q4_K, Q6_K, Q2_K, {Q3_K, Q3_K}},
    Quant{"q4_k_m", LLAMA_FTYPE_MOSTLY_Q4_K_M, Q4_K, Q6_K, Q4_K, {Q6_K, Q4_K}},
    Quant{"q5_k_m", LLAMA_FTYPE_MOSTLY_Q5_K_M, Q5_K, Q6_K, Q5_K, {Q6_K, Q5_K}},
    Quant{"q6_k", LLAMA_FTYPE_MOSTLY_Q6_K, Q6_K, Q6_K, Q6_K, {Q6_K, Q6_K}},
    Quant{"mxfp4", LLAMA_FTYPE_MOSTLY_MXFP4_MOE, Q8_0, Q8_0, MXFP4, {MXFP4, MXFP4}},
    Quant{"iq4_nl", LLAMA_FTYPE_MOSTLY_IQ4_NL, Q4_K, Q6_K, IQ4_NL, {IQ4_NL, IQ4_NL}},
    Quant{"iq4_xs", LLAMA_FTYPE_MOSTLY_IQ4_XS, Q4_K, Q6_K, IQ4_XS, {IQ4_XS, IQ4_XS}},
    Quant{"iq3_s", LLAMA_FTYPE_MOSTLY_IQ3_S, Q4_K, Q6_K, IQ3_S, {IQ3_S, IQ3_S}},
    Quant{"iq2_xs", LLAMA_FTYPE_MOSTLY_IQ2_XS, Q4_K, Q6_K, IQ2_XS, {IQ3_S, IQ2_XS}},
};

// 0 for a tensor outside the layers.
uint32_t layer_of(std::string_view tensor) {
    uint32_t layer = 0;
    if (tensor.starts_with("blk.")) {
        std::from_chars(tensor.data() + 4, tensor.data() + tensor.size(), layer);
    }
    return layer;
}

// Tensors that llama.cpp's own quantiser does not quantise: vectors, biases, the router, and convolutions.
bool stays_f32(std::string_view tensor, const std::array<int64_t, GGML_MAX_DIMS> &extent) {
    const bool vector = extent[1] == 1 && extent[2] == 1 && extent[3] == 1;
    return vector || tensor.ends_with(".bias") || tensor.ends_with(".ffn_gate_inp.weight") ||
           tensor.ends_with(".ssm_conv1d.weight");
}

ggml_type wanted_type(const Quant &quant, std::string_view tensor) {
    if (tensor == "output.weight") {
        return quant.output;
    }
    if (tensor.ends_with(".ffn_down_exps.weight")) {
        return quant.expert_down[layer_of(tensor) % 2];
    }
    if (tensor.ends_with("_exps.weight")) {
        return quant.expert;
    }
    return quant.base;
}

} // namespace

std::span<const Quant> quants() { return table; }

const Quant &find_quant(std::string_view name) {
    const auto *found = std::ranges::find(table, name, &Quant::name);
    if (found == table.end()) {
        std::vector<std::string_view> names;
        std::ranges::transform(table, std::back_inserter(names), &Quant::name);
        throw Error(ErrorKind::usage, fmt::format("--quant: unknown quantisation '{}'", name),
                    fmt::format("known are {}", fmt::join(names, ", ")));
    }
    return *found;
}

ggml_type tensor_type(const Quant &quant, std::string_view tensor, const std::array<int64_t, GGML_MAX_DIMS> &extent) {
    if (stays_f32(tensor, extent)) {
        return F32;
    }
    for (const ggml_type type : {wanted_type(quant, tensor), Q8_0}) {
        if (extent[0] % ggml_blck_size(type) == 0) {
            return type;
        }
    }
    return F16;
}

} // namespace larder::make_model

#include "layout/types.h"

#include "layout/classify.h"
#include "layout/refusal.h"

#include <fmt/format.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <algorithm>
#include <array>
#include <span>

namespace larder {

namespace {

// ggml multiplies with one vec_dot per row. It first converts the activations from float to the type that vec_dot
// requires.
bool can_multiply(ggml_type type) {
    const ggml_type_traits_cpu *traits = ggml_get_type_traits_cpu(type);
    return traits->vec_dot != nullptr && ggml_get_type_traits_cpu(traits->vec_dot_type)->from_float != nullptr;
}

// Rows are converted to float. F32 needs no conversion.
bool can_look_up(ggml_type type) { return type == GGML_TYPE_F32 || ggml_get_type_traits(type)->to_float != nullptr; }

// Activations are F32, and ggml has no element-wise operation on F32 and another type.
bool can_combine(ggml_type type) { return type == GGML_TYPE_F32; }

bool is_vector(const TensorInfo &tensor) { return std::ranges::max(std::span(tensor.shape).subspan(1)) == 1; }

std::string_view verb_of(TensorUse use) {
    switch (use) {
    case TensorUse::rows:
        return "look up rows in";
    case TensorUse::vector:
        return "use for a norm, bias or scale";
    case TensorUse::ids:
        return "use to select experts";
    default:
        return "multiply with";
    }
}

} // namespace

TensorUse use_of(const ModelLayout &layout, const TensorInfo &tensor) {
    const TensorName name = parse_tensor_name(tensor.name);
    if (name.stem == "ffn_gate_tid2eid") {
        return TensorUse::ids;
    }
    // Maps from a draft model's tokens to those of its target. No other tensors in llama.cpp contain integers.
    constexpr std::array<std::string_view, 2> tables = {"d2t", "masked_embd_ordering"};
    if (std::ranges::find(tables, name.stem) != tables.end()) {
        return TensorUse::table;
    }
    if ((tensor.kind == TensorKind::norm && is_vector(tensor)) || name.suffix == "bias" || name.suffix == "scale" ||
        name.suffix == "input_scale") {
        return TensorUse::vector;
    }
    if (tensor.kind == TensorKind::embedding) {
        const bool tied = tensor.name == "token_embd.weight" && layout.find("output.weight") == nullptr;
        return tied ? TensorUse::both : TensorUse::rows;
    }
    return TensorUse::matrix;
}

bool ggml_can(TensorUse use, int type) {
    const auto of_ggml = static_cast<ggml_type>(type);
    switch (use) {
    case TensorUse::matrix:
        return can_multiply(of_ggml);
    case TensorUse::rows:
        return can_look_up(of_ggml);
    case TensorUse::both:
        return can_look_up(of_ggml) && can_multiply(of_ggml);
    case TensorUse::vector:
        return can_combine(of_ggml);
    case TensorUse::ids:
        return of_ggml == GGML_TYPE_I32;
    case TensorUse::table:
        return true;
    }
    return false;
}

void check_types(const ModelLayout &layout) {
    for (const TensorInfo &tensor : layout.tensors) {
        const TensorUse use = use_of(layout, tensor);
        if (!ggml_can(use, tensor.type)) {
            throw refusal(layout.files[tensor.extent.file],
                          fmt::format("tensor '{}' has the type {}, which llama.cpp cannot {}", tensor.name,
                                      tensor.type_name, verb_of(use)),
                          "take a GGUF of the model with another quantisation");
        }
    }
}

} // namespace larder

#include "recital.h"

#include "base/check.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

namespace larder::make_recite {

namespace {

using make_model::Distribution;
using make_model::Sink;
using make_model::Tensor;
using make_model::TensorShape;

// The router's logits of the chosen experts fall from this value towards 1; the logits of the others are 0. Both
// sigmoid and softmax separate them clearly, and trained routers have logits of this magnitude.
constexpr float router_logit_max = 4.0F;

// The logit of the next token. The logits of the others are within a few units of 0, so that sampling follows the trace
// too.
constexpr float output_logit = 32.0F;

// The gain of a matrix. Products of these gains keep the contribution of a layer near 1e-4 of the residual stream. A
// single matrix with such a gain would lose precision, because a quantised block stores its scales in half precision.
float gain_of(std::string_view name) {
    const auto has = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
    if (has("_exps.") || has("_shexp.")) {
        return has("ffn_gate_inp") ? 1.0F : 0.05F;
    }
    if (has(".attn_v.") || has(".attn_gate.")) {
        return 0.02F;
    }
    if (has(".attn_output.") || has(".ssm_out.")) {
        return 0.01F;
    }
    return 1.0F;
}

Distribution distribution_of(const TensorShape &tensor) {
    const std::string_view name = tensor.name;
    if (name.ends_with("norm.weight")) {
        return {1.0F, 0.0F};
    }
    if (name.ends_with(".ssm_a") || name.ends_with(".ssm_dt.bias")) {
        return make_model::full_strength(tensor, false);
    }
    return {0.0F, gain_of(name) / std::sqrt(static_cast<float>(tensor.extent[0]))};
}

uint32_t layer_of(std::string_view name) {
    uint32_t layer = 0;
    const auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), layer);
    LARDER_CHECK(name.starts_with("blk.") && error == std::errc());
    return layer;
}

} // namespace

ggml_type embedding_type(ggml_type wanted) {
    // Q4_0 represents −8 to 7 times the scale of a block.
    return wanted == GGML_TYPE_Q4_0 ? GGML_TYPE_Q8_0 : wanted;
}

Recital::Recital(uint64_t seed, const Routing &routing, uint32_t embd)
    : routing_(routing), rows_(embd, routing.tokens()), random_(seed, distribution_of) {}

void Recital::generate(const Tensor &tensor, const Sink &sink) {
    const std::string_view name = tensor.shape.name;
    if (name == "token_embd.weight") {
        embedding(tensor, sink);
    } else if (name == "output.weight") {
        output(tensor, sink);
    } else if (name.ends_with(".ffn_gate_inp.weight")) {
        router(tensor, layer_of(name), sink);
    } else {
        random_.generate(tensor, sink);
    }
}

// Tokens beyond the trace repeat its rows, so that any text routes like a part of the trace, and decode continues from
// there.
void Recital::embedding(const Tensor &tensor, const Sink &sink) {
    const uint32_t tokens = routing_.tokens();
    const std::vector<float> values(rows_.row(0), rows_.row(0) + size_t{tokens} * rows_.order());
    std::vector<std::byte> bytes;
    make_model::quantize(tensor.type, values, rows_.order(), bytes);
    const size_t row_bytes = bytes.size() / tokens;
    for (auto left = static_cast<size_t>(tensor.shape.extent[1]); left > 0;) {
        const size_t count = std::min<size_t>(left, tokens);
        sink(std::span(bytes).first(count * row_bytes));
        left -= count;
    }
}

// Row t + 1 matches row t of the embedding. Rows beyond the trace only cost time.
void Recital::output(const Tensor &tensor, const Sink &sink) {
    const uint32_t tokens = routing_.tokens();
    const float scale = output_logit / static_cast<float>(rows_.order());
    std::vector<float> values;
    values.reserve(size_t{tokens} * rows_.order());
    for (uint32_t token = 0; token < tokens; token++) {
        const int8_t *before = rows_.row((token + tokens - 1) % tokens);
        std::transform(before, before + rows_.order(), std::back_inserter(values),
                       [scale](int8_t sign) { return scale * static_cast<float>(sign); });
    }
    std::vector<std::byte> bytes;
    make_model::quantize(tensor.type, values, rows_.order(), bytes);
    sink(bytes);
    Tensor rest = tensor;
    rest.shape.extent[1] -= tokens;
    random_.generate(rest, sink);
}

void Recital::router(const Tensor &tensor, uint32_t layer, const Sink &sink) {
    LARDER_CHECK(tensor.type == GGML_TYPE_F32);
    const size_t embd = rows_.order();
    const auto scale = 1.0F / static_cast<float>(embd);
    std::vector<float> weights(tensor.elements());
    for (uint32_t token = 0; token < routing_.tokens(); token++) {
        const std::span<const int32_t> experts = routing_.experts(token, layer);
        const float step = (router_logit_max - 1.0F) / static_cast<float>(experts.size());
        float logit = router_logit_max;
        for (const int32_t expert : experts) {
            float *row = weights.data() + static_cast<size_t>(expert) * embd;
            for (size_t i = 0; i < embd; i++) {
                row[i] += logit * scale * static_cast<float>(rows_.row(token)[i]);
            }
            logit -= step;
        }
    }
    sink(std::as_bytes(std::span(weights)));
}

} // namespace larder::make_recite

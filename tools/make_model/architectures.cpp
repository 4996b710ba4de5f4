#include "architectures.h"

#include "base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace larder::make_model {

class KeyWriter {
  public:
    KeyWriter(gguf_context *metadata, std::string_view prefix) : metadata_(metadata), prefix_(prefix) {}

    void u32(std::string_view key, uint32_t value) const { gguf_set_val_u32(metadata_, full(key).c_str(), value); }
    void f32(std::string_view key, float value) const { gguf_set_val_f32(metadata_, full(key).c_str(), value); }
    void flag(std::string_view key, bool value) const { gguf_set_val_bool(metadata_, full(key).c_str(), value); }
    void i32s(std::string_view key, std::span<const int32_t> values) const {
        gguf_set_arr_data(metadata_, full(key).c_str(), GGUF_TYPE_INT32, values.data(), values.size());
    }
    // Flags are stored as one byte each, like in GGUF: std::vector<bool> has no contiguous data to pass.
    void flags(std::string_view key, std::span<const int8_t> values) const {
        gguf_set_arr_data(metadata_, full(key).c_str(), GGUF_TYPE_BOOL, values.data(), values.size());
    }

  private:
    [[nodiscard]] std::string full(std::string_view key) const { return fmt::format("{}.{}", prefix_, key); }

    gguf_context *metadata_;
    std::string_view prefix_;
};

namespace {

// llama_expert_gating_func_type from a private header of llama.cpp.
constexpr uint32_t gating_sigmoid = 2;

constexpr uint32_t sliding_window = 64;

uint32_t grouped_kv_heads(const Shape &shape) {
    if (shape.kv_heads > 0) {
        return shape.kv_heads;
    }
    return shape.heads % 2 == 0 ? shape.heads / 2 : shape.heads;
}

void write_common(const KeyWriter &keys, const Shape &shape) {
    keys.u32("context_length", shape.ctx);
    keys.u32("embedding_length", shape.embd);
    keys.u32("block_count", shape.layers);
    keys.u32("attention.head_count", shape.heads);
    keys.f32("attention.layer_norm_rms_epsilon", 1e-6F);
    keys.f32("rope.freq_base", 10000.0F);
    if (shape.experts > 0) {
        keys.u32("expert_count", shape.experts);
        keys.u32("expert_used_count", shape.top_k);
    }
}

void write_plain_attention(const KeyWriter &keys, const Shape &shape, uint32_t kv_heads) {
    keys.u32("attention.head_count_kv", kv_heads);
    keys.u32("attention.key_length", shape.head_size());
    keys.u32("attention.value_length", shape.head_size());
    keys.u32("rope.dimension_count", shape.head_size());
}

void write_qwen3(const KeyWriter &keys, const Shape &shape) {
    write_plain_attention(keys, shape, grouped_kv_heads(shape));
    keys.u32("feed_forward_length", shape.ff);
}

void write_qwen3moe(const KeyWriter &keys, const Shape &shape) {
    write_plain_attention(keys, shape, grouped_kv_heads(shape));
    keys.u32("feed_forward_length", shape.ff * shape.top_k);
    keys.u32("expert_feed_forward_length", shape.ff);
}

// Three layers of gated delta net, then one of attention, as in the real models. A model with fewer layers has one of
// attention.
uint32_t attention_interval(const Shape &shape) { return std::min(4U, shape.layers); }

// Half of a head's dimensions are rotated.
void write_qwen35moe(const KeyWriter &keys, const Shape &shape) {
    const uint32_t state_size = shape.ssm_state > 0 ? shape.ssm_state : 64;
    write_plain_attention(keys, shape, grouped_kv_heads(shape));
    const uint32_t rotated = shape.head_size() / 2;
    const auto pairs = static_cast<int32_t>(rotated / 2);
    const std::array sections = {pairs - 2 * (pairs / 3), pairs / 3, pairs / 3, 0};
    keys.u32("rope.dimension_count", rotated);
    keys.i32s("rope.dimension_sections", sections);
    keys.u32("expert_feed_forward_length", shape.ff);
    keys.u32("expert_shared_feed_forward_length", shape.ff);
    keys.u32("full_attention_interval", attention_interval(shape));
    keys.u32("ssm.conv_kernel", 4);
    keys.u32("ssm.state_size", state_size);
    keys.u32("ssm.group_count", shape.heads);
    keys.u32("ssm.time_step_rank", 2 * shape.heads);
    keys.u32("ssm.inner_size", 2 * shape.heads * state_size);
}

void write_smallthinker(const KeyWriter &keys, const Shape &shape) {
    write_plain_attention(keys, shape, grouped_kv_heads(shape));
    keys.u32("feed_forward_length", shape.ff);
    keys.u32("expert_feed_forward_length", shape.ff);
    keys.u32("expert_gating_func", gating_sigmoid);
}

// Every fifth layer has full attention, with larger heads than the layers with a sliding window.
void write_gemma4(const KeyWriter &keys, const Shape &shape) {
    keys.u32("attention.head_count_kv", grouped_kv_heads(shape));
    keys.u32("attention.key_length", 2 * shape.head_size());
    keys.u32("attention.value_length", 2 * shape.head_size());
    keys.u32("attention.key_length_swa", shape.head_size());
    keys.u32("attention.value_length_swa", shape.head_size());
    keys.u32("rope.dimension_count", 2 * shape.head_size());
    keys.u32("rope.dimension_count_swa", shape.head_size());
    keys.f32("rope.freq_base_swa", 10000.0F);
    keys.u32("attention.sliding_window", sliding_window);
    keys.u32("attention.shared_kv_layers", 0);
    keys.u32("embedding_length_per_layer_input", 0);
    keys.f32("final_logit_softcapping", 30.0F);
    keys.u32("feed_forward_length", 2 * shape.ff);
    keys.u32("expert_feed_forward_length", shape.ff);
    std::vector<int8_t> slides(shape.layers);
    for (uint32_t layer = 0; layer < shape.layers; ++layer) {
        slides[layer] = (layer + 1) % 5 != 0 ? 1 : 0;
    }
    keys.flags("attention.sliding_window_pattern", slides);
}

void write_gpt_oss(const KeyWriter &keys, const Shape &shape) {
    write_plain_attention(keys, shape, grouped_kv_heads(shape));
    keys.u32("feed_forward_length", shape.ff);
    keys.u32("expert_feed_forward_length", shape.ff);
    keys.u32("attention.sliding_window", sliding_window);
}

// Multi-head latent attention; the first layer is dense; one shared expert; the router uses sigmoid plus a bias.
void write_deepseek2(const KeyWriter &keys, const Shape &shape) {
    constexpr uint32_t kv_rank = 256;
    constexpr uint32_t q_rank = 256;
    constexpr uint32_t rotated = 32;
    keys.u32("attention.head_count_kv", 1);
    keys.u32("attention.q_lora_rank", q_rank);
    keys.u32("attention.kv_lora_rank", kv_rank);
    keys.u32("attention.key_length", kv_rank + rotated);
    keys.u32("attention.value_length", kv_rank);
    keys.u32("attention.key_length_mla", shape.head_size() + rotated);
    keys.u32("attention.value_length_mla", shape.head_size());
    keys.u32("rope.dimension_count", rotated);
    keys.u32("leading_dense_block_count", 1);
    keys.u32("feed_forward_length", 4 * shape.ff);
    keys.u32("expert_feed_forward_length", shape.ff);
    keys.u32("expert_shared_count", 1);
    keys.u32("expert_gating_func", gating_sigmoid);
    keys.flag("expert_weights_norm", true);
    keys.f32("expert_weights_scale", 1.5F);
}

void write_glm4moe(const KeyWriter &keys, const Shape &shape) {
    write_plain_attention(keys, shape, grouped_kv_heads(shape));
    keys.u32("rope.dimension_count", shape.head_size() / 2);
    keys.u32("leading_dense_block_count", 1);
    keys.u32("feed_forward_length", 4 * shape.ff);
    keys.u32("expert_feed_forward_length", shape.ff);
    keys.u32("expert_shared_count", 1);
    keys.u32("expert_gating_func", gating_sigmoid);
    keys.flag("expert_weights_norm", true);
    keys.f32("expert_weights_scale", 1.0F);
}

void write_llama(const KeyWriter &keys, const Shape &shape) {
    write_plain_attention(keys, shape, grouped_kv_heads(shape));
    keys.u32("feed_forward_length", shape.ff);
}

void write_olmoe(const KeyWriter &keys, const Shape &shape) {
    write_plain_attention(keys, shape, shape.heads);
    keys.u32("feed_forward_length", shape.ff);
}

void write_qwen2moe(const KeyWriter &keys, const Shape &shape) {
    write_plain_attention(keys, shape, grouped_kv_heads(shape));
    keys.u32("feed_forward_length", shape.ff * shape.top_k);
    keys.u32("expert_feed_forward_length", shape.ff);
    keys.u32("expert_shared_feed_forward_length", shape.ff);
}

std::vector<std::string> in_layers(uint32_t first, uint32_t end, std::initializer_list<std::string_view> names) {
    std::vector<std::string> tensors;
    for (uint32_t layer = first; layer < end; ++layer) {
        for (std::string_view name : names) {
            tensors.push_back(fmt::format("blk.{}.{}", layer, name));
        }
    }
    return tensors;
}

std::vector<std::string> tied_output(const Shape & /*shape*/) { return {}; }

std::vector<std::string> own_output(const Shape & /*shape*/) { return {"output.weight"}; }

std::vector<std::string> with_output(std::vector<std::string> tensors) {
    tensors.insert(tensors.begin(), "output.weight");
    return tensors;
}

std::vector<std::string> qwen35moe_tensors(const Shape &shape) {
    std::vector<std::string> tensors = {"output.weight"};
    for (uint32_t layer = 0; layer < shape.layers; ++layer) {
        if ((layer + 1) % attention_interval(shape) != 0) {
            tensors.push_back(fmt::format("blk.{}.attn_qkv.weight", layer));
            tensors.push_back(fmt::format("blk.{}.attn_gate.weight", layer));
        }
    }
    return tensors;
}

std::vector<std::string> gemma4_tensors(const Shape &shape) {
    return in_layers(0, shape.layers,
                     {"attn_v.weight", "layer_output_scale.weight", "ffn_gate_inp.weight", "ffn_gate_up_exps.weight",
                      "ffn_down_exps.scale"});
}

std::vector<std::string> attention_biases(const Shape &shape) {
    return in_layers(0, shape.layers, {"attn_q.bias", "attn_k.bias", "attn_v.bias"});
}

std::vector<std::string> biases_and_output(const Shape &shape) { return with_output(attention_biases(shape)); }

std::vector<std::string> deepseek2_tensors(const Shape &shape) {
    return with_output(in_layers(1, shape.layers, {"exp_probs_b.bias"}));
}

std::vector<std::string> llama_tensors(const Shape &shape) {
    return with_output(in_layers(0, shape.layers, {"ffn_gate_exps.weight"}));
}

constexpr uint32_t vocab = 2048;
constexpr uint32_t ctx = 4096;

// layers, experts, top-k, embd, ff, heads, vocab, ctx
constexpr std::array table = {
    Architecture{"qwen3moe", "q4_k_m", {4, 32, 4, 256, 256, 4, vocab, ctx}, 1, false, write_qwen3moe, own_output},
    Architecture{
        "qwen35moe", "q4_k_m", {8, 16, 4, 256, 256, 4, vocab, ctx}, 2, false, write_qwen35moe, qwen35moe_tensors},
    Architecture{
        "smallthinker", "q4_k_m", {4, 32, 4, 256, 256, 4, vocab, ctx}, 1, false, write_smallthinker, own_output},
    Architecture{"gemma4", "q4_k_m", {5, 16, 4, 256, 256, 4, vocab, ctx}, 2, true, write_gemma4, gemma4_tensors},
    Architecture{"gpt-oss", "mxfp4", {4, 16, 4, 256, 256, 4, vocab, ctx}, 1, false, write_gpt_oss, attention_biases},
    Architecture{
        "deepseek2", "q4_k_m", {4, 32, 4, 256, 256, 4, vocab, ctx}, 1, false, write_deepseek2, deepseek2_tensors},
    Architecture{"glm4moe", "q4_k_m", {4, 16, 4, 256, 256, 4, vocab, ctx}, 1, false, write_glm4moe, biases_and_output},
    Architecture{"llama", "q4_k_m", {4, 8, 2, 256, 512, 4, vocab, ctx}, 1, false, write_llama, llama_tensors},
    Architecture{"olmoe", "q4_k_m", {4, 32, 8, 256, 256, 4, vocab, ctx}, 1, false, write_olmoe, own_output},
    Architecture{
        "qwen2moe", "q4_k_m", {4, 16, 4, 256, 256, 4, vocab, ctx}, 1, false, write_qwen2moe, biases_and_output},
    Architecture{"qwen3", "q4_k_m", {4, 0, 0, 256, 512, 4, vocab, ctx}, 1, true, write_qwen3, tied_output},
};

void require(bool holds, std::string what) {
    if (!holds) {
        throw Error(ErrorKind::usage, std::move(what));
    }
}

} // namespace

std::span<const Architecture> architectures() { return table; }

const Architecture &find_architecture(std::string_view name) {
    const auto *found = std::ranges::find(table, name, &Architecture::name);
    if (found == table.end()) {
        std::vector<std::string_view> names;
        std::ranges::transform(table, std::back_inserter(names), &Architecture::name);
        throw Error(ErrorKind::usage, fmt::format("--arch: unknown architecture '{}'", name),
                    fmt::format("known are {}", fmt::join(names, ", ")));
    }
    return *found;
}

void check_shape(const Architecture &architecture, const Shape &shape) {
    require(shape.layers >= architecture.layers_min && shape.layers <= 512,
            fmt::format("--layers must be from {} to 512 for {}", architecture.layers_min, architecture.name));
    require(shape.heads >= 1 && shape.heads <= 1024, "--heads must be from 1 to 1024");
    require(shape.head_dim > 0 || shape.embd % (shape.heads * 8) == 0,
            fmt::format("--embd {} must be a multiple of 8 times --heads {}", shape.embd, shape.heads));
    require(shape.head_dim % 8 == 0 && shape.head_dim <= 1024, "--head-dim must be a multiple of 8 up to 1024");
    require(shape.kv_heads == 0 || shape.heads % shape.kv_heads == 0,
            fmt::format("--heads {} must be a multiple of --kv-heads {}", shape.heads, shape.kv_heads));
    require(shape.embd >= 32 && shape.embd % 32 == 0, "--embd must be a multiple of 32");
    require(shape.ff >= 32 && shape.ff % 32 == 0, "--ff must be a multiple of 32");
    require(shape.ctx >= 1, "--ctx must be at least 1");
    if (architecture.defaults.experts == 0) {
        require(shape.experts == 0 && shape.top_k == 0,
                fmt::format("--experts and --top-k: {} is a dense architecture", architecture.name));
    } else {
        require(shape.experts >= 1 && shape.experts <= 1024, "--experts must be from 1 to 1024");
        require(shape.top_k >= 1 && shape.top_k <= shape.experts, "--top-k must be from 1 to --experts");
    }
}

void write_hyper_parameters(gguf_context *metadata, const Architecture &architecture, const Shape &shape) {
    gguf_set_val_str(metadata, "general.architecture", std::string(architecture.name).c_str());
    gguf_set_val_str(metadata, "general.type", "model");
    gguf_set_val_str(metadata, "general.name", fmt::format("larder test {}", architecture.name).c_str());
    const KeyWriter keys(metadata, architecture.name);
    write_common(keys, shape);
    architecture.write_keys(keys, shape);
    keys.u32("vocab_size", shape.vocab);
}

} // namespace larder::make_model

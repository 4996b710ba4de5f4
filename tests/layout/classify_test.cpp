// Tensor kinds by name, and which layers have attention or a recurrent state.
#include "layout/classify.h"
#include "layout/gguf_builder.h"
#include "layout/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace larder {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TensorName, IsTakenApart) {
    const TensorName name = parse_tensor_name("blk.12.ffn_up_exps.weight");
    EXPECT_EQ(name.layer, 12);
    EXPECT_EQ(name.stem, "ffn_up_exps");
    EXPECT_EQ(name.suffix, "weight");
    EXPECT_EQ(parse_tensor_name("blk.0.ssm_a").stem, "ssm_a");
    EXPECT_EQ(parse_tensor_name("blk.0.indexer.attn_k.weight").stem, "indexer.attn_k");
    EXPECT_EQ(parse_tensor_name("token_embd.weight").layer, -1);
}

TEST(TensorName, WithAnImpossibleLayerBelongsToNone) {
    for (const char *name : {"blk.-1.attn_q.weight", "blk.99999999999.attn_q.weight", "blk.x.attn_q.weight", "blk.",
                             "blk.1", "blk.70000.attn_q.weight", ""}) {
        EXPECT_EQ(parse_tensor_name(name).layer, -1) << name;
    }
}

TEST(SingleExperts, AreToldFromDenseFeedForward) {
    for (const char *name : {"blk.0.ffn_gate.0.weight", "blk.31.ffn_up.7.weight", "blk.1.ffn_down.10.weight"}) {
        EXPECT_TRUE(is_single_expert(name)) << name;
    }
    for (const char *name :
         {"blk.0.ffn_gate.weight", "blk.0.ffn_gate_exps.weight", "blk.0.ffn_gate.0.bias", "ffn_gate.0.weight",
          "blk.0.ffn_gate.x.weight", "blk.0.ffn_norm.0.weight", "blk.0.ffn_gate..weight"}) {
        EXPECT_FALSE(is_single_expert(name)) << name;
    }
}

TEST(TensorKinds, FollowFromNames) {
    const std::vector<std::pair<TensorKind, std::vector<const char *>>> expected = {
        {TensorKind::routed_expert,
         {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight", "blk.0.ffn_down_exps.weight",
          "blk.0.ffn_gate_up_exps.weight", "blk.511.ffn_up_chexps.weight"}},
        {TensorKind::embedding, {"token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight"}},
        {TensorKind::head, {"output.weight", "output.bias", "cls.weight"}},
        {TensorKind::attention,
         {"blk.3.attn_q.weight", "blk.3.attn_qkv.bias", "blk.3.attn_sinks.weight", "blk.3.attn_kv_a_mqa.weight",
          "blk.3.attn_gate.weight"}},
        {TensorKind::ssm,
         {"blk.1.ssm_a", "blk.1.ssm_conv1d.weight", "blk.1.shortconv.in_proj.weight", "blk.1.time_mix_key.weight"}},
        {TensorKind::shared_expert, {"blk.1.ffn_up_shexp.weight", "blk.1.ffn_gate_inp_shexp.weight"}},
        {TensorKind::router, {"blk.1.ffn_gate_inp.weight", "blk.1.ffn_gate_inp.bias", "blk.1.exp_probs_b.bias"}},
        {TensorKind::norm,
         {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ssm_norm.weight", "blk.0.attn_q_norm.weight",
          "blk.0.post_attention_norm.weight", "token_embd_norm.weight"}},
        {TensorKind::other,
         {"blk.0.ffn_up.weight", "blk.0.ffn_up_exps.bias", "blk.0.ffn_down_exps.scale", "rope_freqs.weight",
          "ffn_up_exps.weight", ""}},
    };
    for (const auto &[kind, names] : expected) {
        for (const char *name : names) {
            EXPECT_EQ(classify(name), kind) << name << " is " << to_string(classify(name));
        }
    }
}

// A model of `n_layer` layers with the keys and tensors that `add` adds.
template <typename Add> ModelLayout layout_with(uint32_t n_layer, Add add) {
    const TempDir dir;
    GgufBuilder gguf;
    gguf.key_text("general.architecture", "test").key("test.block_count", n_layer);
    add(gguf);
    return open_layout(gguf.write(dir));
}

void add_weights(GgufBuilder &gguf, uint32_t layer, const std::vector<std::string> &stems) {
    for (const std::string &stem : stems) {
        gguf.tensor(fmt::format("blk.{}.{}.weight", layer, stem), GGML_TYPE_F32, {32});
    }
}

TEST(LayerKinds, OfAHybridShowInItsTensorsEvenIfAKeyCallsEveryLayerRecurrent) {
    const ModelLayout layout = layout_with(8, [](GgufBuilder &gguf) {
        gguf.key_array<uint8_t>("test.attention.recurrent_layers", GGUF_TYPE_BOOL, std::vector<uint8_t>(8, 1));
        for (uint32_t layer = 0; layer < 8; layer++) {
            const bool full = layer % 4 == 3;
            add_weights(gguf, layer,
                        full ? std::vector<std::string>{"attn_q", "attn_k", "attn_v", "attn_output"}
                             : std::vector<std::string>{"attn_qkv", "attn_gate", "ssm_conv1d", "ssm_out"});
        }
    });
    EXPECT_THAT(layout.full_attention_layers, ElementsAre(3, 7));
    EXPECT_THAT(layout.recurrent_layers, ElementsAre(0, 1, 2, 4, 5, 6));
}

TEST(LayerKinds, OfAParallelHybridAreBoth) {
    const ModelLayout layout = layout_with(1, [](GgufBuilder &gguf) {
        add_weights(gguf, 0, {"attn_q", "attn_k", "attn_v", "ssm_in", "ssm_out"});
    });
    EXPECT_THAT(layout.full_attention_layers, ElementsAre(0));
    EXPECT_THAT(layout.recurrent_layers, ElementsAre(0));
}

TEST(LayerKinds, OfAShortConvolutionOrATimeMixAreRecurrent) {
    const ModelLayout layout = layout_with(2, [](GgufBuilder &gguf) {
        add_weights(gguf, 0, {"shortconv.conv"});
        add_weights(gguf, 1, {"time_mix_key"});
    });
    EXPECT_THAT(layout.full_attention_layers, IsEmpty());
    EXPECT_THAT(layout.recurrent_layers, ElementsAre(0, 1));
}

TEST(LayerKinds, FollowTheWindowsPatternAsFlagsOrAsAPeriod) {
    const auto add_attention = [](GgufBuilder &gguf) {
        gguf.key("test.attention.sliding_window", 128);
        for (uint32_t layer = 0; layer < 4; layer++) {
            add_weights(gguf, layer, {"attn_q", "attn_k"});
        }
    };
    const ModelLayout flags = layout_with(4, [&](GgufBuilder &gguf) {
        gguf.key_array<uint8_t>("test.attention.sliding_window_pattern", GGUF_TYPE_BOOL, {0, 1, 1, 0});
        add_attention(gguf);
    });
    EXPECT_THAT(flags.full_attention_layers, ElementsAre(0, 3));
    EXPECT_THAT(flags.windowed_layers, ElementsAre(1, 2));
    const ModelLayout period = layout_with(4, [&](GgufBuilder &gguf) {
        gguf.key("test.attention.sliding_window_pattern", 2);
        add_attention(gguf);
    });
    EXPECT_THAT(period.full_attention_layers, ElementsAre(1, 3));
    EXPECT_EQ(period.sliding_window, 128U);
    const ModelLayout unnamed = layout_with(4, add_attention);
    EXPECT_THAT(unnamed.full_attention_layers, ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(unnamed.windowed_layers, IsEmpty());
}

} // namespace
} // namespace larder

// Experts: counts, slices, groups and size classes; refusal of inconsistent ones.
#include "base/bytes.h"
#include "layout/gguf_builder.h"
#include "layout/layout.h"
#include "layout/refuses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace larder {
namespace {

using testing::ElementsAre;

class Experts : public testing::Test {
  protected:
    TempDir dir;
};

TEST_F(Experts, AreCountedAndSized) {
    const ModelLayout layout = open_layout(small_moe().write(dir));
    EXPECT_EQ(layout.architecture, "testmoe");
    EXPECT_EQ(layout.name, "Test MoE");
    EXPECT_EQ(layout.n_layer, 2U);
    EXPECT_EQ(layout.n_expert, 4U);
    EXPECT_EQ(layout.n_expert_used, 2U);
    EXPECT_EQ(layout.context_length, 512U);
    ASSERT_EQ(layout.expert_tensors.size(), 6U);
    EXPECT_EQ(layout.n_slice, 24U);
    EXPECT_EQ(layout.routed_bytes, 2U * 4 * (272 + 272 + 1088));
    EXPECT_EQ(layout.total_bytes, layout.routed_bytes + layout.resident_bytes);
    EXPECT_EQ(layout.token_bytes, 2U * 2 * (272 + 272 + 1088));
}

TEST_F(Experts, SlicesLieOneAfterTheOtherAndAreNumberedThrough) {
    const ModelLayout layout = open_layout(small_moe().write(dir));
    uint32_t next_slice = 0;
    for (const ExpertTensor &expert : layout.expert_tensors) {
        const Extent &whole = layout.tensors[expert.tensor].extent;
        EXPECT_EQ(expert.first_slice, next_slice);
        EXPECT_EQ(layout.slice_extent(expert, 0).offset, whole.offset);
        const Extent last = layout.slice_extent(expert, expert.n_expert - 1);
        EXPECT_EQ(last.offset + last.bytes, whole.offset + whole.bytes);
        next_slice += expert.n_expert;
    }
    EXPECT_EQ(next_slice, layout.n_slice);
}

TEST_F(Experts, FormOneGroupALayer) {
    const ModelLayout layout = open_layout(small_moe().write(dir));
    for (const ExpertTensor &expert : layout.expert_tensors) {
        EXPECT_EQ(expert.moe_layer, expert.layer);
    }
}

TEST_F(Experts, OfEqualSizeFormASizeClassWithRoomForTheWidestWindow) {
    const ModelLayout layout = open_layout(small_moe().write(dir));
    ASSERT_EQ(layout.size_classes.size(), 2U);
    EXPECT_EQ(layout.size_classes[0].slice_bytes, 272U);
    EXPECT_EQ(layout.size_classes[0].n_slices, 16U);
    EXPECT_EQ(layout.size_classes[0].n_slices_per_token, 8U);
    EXPECT_EQ(layout.size_classes[1].slice_bytes, 1088U);
    EXPECT_EQ(layout.size_classes[1].n_slices_per_token, 4U);
    std::vector<uint64_t> widest(2);
    for (const ExpertTensor &expert : layout.expert_tensors) {
        for (uint32_t e = 0; e < expert.n_expert; e++) {
            const Window window = window_of(layout.slice_extent(expert, e));
            widest[expert.size_class] = std::max(widest[expert.size_class], window.bytes);
        }
    }
    EXPECT_EQ(layout.size_classes[0].slot_bytes, widest[0]);
    EXPECT_EQ(layout.size_classes[1].slot_bytes, widest[1]);
}

TEST_F(Experts, WindowsCoverTheirExtentOnAlignedBounds) {
    for (const Extent extent : {Extent{0, 0, 1}, Extent{0, 4095, 2}, Extent{0, 4096, 4096}, Extent{0, 5000, 8192}}) {
        const Window window = window_of(extent);
        EXPECT_EQ(window.offset % direct_io_alignment, 0U);
        EXPECT_EQ(window.bytes % direct_io_alignment, 0U);
        EXPECT_EQ(window.offset + window.skew, extent.offset);
        EXPECT_GE(window.bytes, window.skew + extent.bytes);
        EXPECT_LT(window.bytes, window.skew + extent.bytes + direct_io_alignment);
    }
}

TEST_F(Experts, FusedAndChunkExpertsAreRecognised) {
    GgufBuilder gguf = moe_keys({.n_layer = 1, .n_expert = 4, .n_expert_used = 3});
    gguf.tensor("blk.0.ffn_gate_up_exps.weight", GGML_TYPE_F16, {32, 16, 4});
    gguf.tensor("blk.0.ffn_gate_up_exps.bias", GGML_TYPE_F32, {16, 4});
    gguf.tensor("blk.0.ffn_down_exps.weight", GGML_TYPE_F16, {8, 32, 4});
    gguf.tensor("blk.0.ffn_down_exps.scale", GGML_TYPE_F32, {4});
    gguf.tensor("blk.0.ffn_up_chexps.weight", GGML_TYPE_F16, {32, 8, 2});
    const ModelLayout layout = open_layout(gguf.write(dir));
    ASSERT_EQ(layout.expert_tensors.size(), 3U);
    EXPECT_EQ(layout.expert_tensors[0].projection, Projection::gate_up);
    EXPECT_EQ(layout.expert_tensors[1].projection, Projection::down);
    EXPECT_EQ(layout.expert_tensors[0].moe_layer, layout.expert_tensors[1].moe_layer);
    EXPECT_NE(layout.expert_tensors[0].moe_layer, layout.expert_tensors[2].moe_layer);
    EXPECT_EQ(layout.expert_tensors[2].n_expert, 2U);
    EXPECT_EQ(layout.expert_tensors[2].n_expert_used, 2U);
    EXPECT_EQ(layout.expert_tensors[0].n_expert_used, 3U);
}

TEST_F(Experts, MayBeFewerInSomeLayersPerToken) {
    GgufBuilder gguf;
    gguf.key_text("general.architecture", "testmoe").key("testmoe.block_count", 2).key("testmoe.expert_count", 4);
    gguf.key_array<uint32_t>("testmoe.expert_used_count", GGUF_TYPE_UINT32, {1, 3});
    add_moe_layer(gguf, 0, 4);
    add_moe_layer(gguf, 1, 4);
    const ModelLayout layout = open_layout(gguf.write(dir));
    EXPECT_EQ(layout.n_expert_used, 3U);
    EXPECT_EQ(layout.expert_tensors.front().n_expert_used, 1U);
    EXPECT_EQ(layout.token_bytes, (1U + 3) * (272 + 272 + 1088));
}

TEST_F(Experts, OfPredictionLayersAreNotInANormalPass) {
    GgufBuilder gguf = moe_keys({.n_layer = 3});
    gguf.key("testmoe.nextn_predict_layers", 1);
    for (uint32_t layer = 0; layer < 3; layer++) {
        add_moe_layer(gguf, layer, 4);
    }
    const ModelLayout layout = open_layout(gguf.write(dir));
    EXPECT_EQ(layout.expert_tensors.size(), 9U);
    EXPECT_EQ(layout.token_bytes, 2U * 2 * (272 + 272 + 1088));
    EXPECT_EQ(layout.size_classes[0].n_slices_per_token, 8U);
}

TEST_F(Experts, StandInLayerOrderWhateverTheFilesOrder) {
    GgufBuilder gguf = moe_keys();
    add_moe_layer(gguf, 1, 4);
    add_moe_layer(gguf, 0, 4);
    const ModelLayout layout = open_layout(gguf.write(dir));
    std::vector<uint32_t> layers;
    for (const ExpertTensor &expert : layout.expert_tensors) {
        layers.push_back(expert.layer);
    }
    EXPECT_THAT(layers, ElementsAre(0, 0, 0, 1, 1, 1));
    EXPECT_GT(layout.slice_extent(layout.expert_tensors[0], 0).offset,
              layout.slice_extent(layout.expert_tensors[3], 0).offset);
}

TEST_F(Experts, ADenseModelHasNone) {
    GgufBuilder gguf;
    gguf.key_text("general.architecture", "llama").key("llama.block_count", 1);
    gguf.tensor("token_embd.weight", GGML_TYPE_F32, {32, 4}).tensor("blk.0.ffn_up.weight", GGML_TYPE_F32, {32, 8});
    const ModelLayout layout = open_layout(gguf.write(dir));
    EXPECT_EQ(layout.n_expert, 0U);
    EXPECT_TRUE(layout.expert_tensors.empty());
    EXPECT_TRUE(layout.size_classes.empty());
    EXPECT_EQ(layout.token_bytes, 0U);
    EXPECT_EQ(layout.resident_bytes, layout.total_bytes);
}

TEST_F(Experts, WithImpossibleTopKAreRefused) {
    for (const uint32_t used : {0U, 5U}) {
        expect_refusal(small_moe({.n_expert_used = used}).write(dir), "testmoe.expert_used_count");
    }
    GgufBuilder dense = moe_keys({.n_expert = 0, .n_expert_used = 2});
    dense.tensor("token_embd.weight", GGML_TYPE_F32, {32});
    expect_refusal(dense.write(dir), "testmoe.expert_used_count");
    expect_refusal(small_moe({.n_expert = 1025}).write(dir), "testmoe.expert_count");
}

TEST_F(Experts, WhoseStackDoesNotMatchTheCountAreRefused) {
    for (const int64_t stacked : {1, 3, 5, 8}) {
        GgufBuilder gguf = moe_keys();
        gguf.tensor("blk.1.ffn_up_exps.weight", GGML_TYPE_F32, {32, 8, stacked});
        expect_refusal(gguf.write(dir), "blk.1.ffn_up_exps.weight");
    }
    GgufBuilder flat = moe_keys({.n_expert = 4});
    flat.tensor("blk.1.ffn_up_exps.weight", GGML_TYPE_F32, {32, 8});
    expect_refusal(flat.write(dir), "blk.1.ffn_up_exps.weight");
    GgufBuilder empty = moe_keys();
    empty.tensor("blk.1.ffn_up_exps.weight", GGML_TYPE_F32, {0, 8, 4});
    expect_refusal(empty.write(dir), "is empty");
}

TEST_F(Experts, OneATensorAreNamedAsTheOldForm) {
    GgufBuilder gguf = moe_keys({.n_layer = 1});
    gguf.tensor("blk.0.ffn_gate_inp.weight", GGML_TYPE_F32, {32, 4});
    for (int expert = 0; expert < 4; expert++) {
        for (const char *projection : {"gate", "down", "up"}) {
            gguf.tensor(fmt::format("blk.0.ffn_{}.{}.weight", projection, expert), GGML_TYPE_Q8_0, {32, 32});
        }
    }
    const std::string path = gguf.write(dir);
    expect_refusal(path, "holds its experts one by one ('blk.0.ffn_gate.0.weight')");
    EXPECT_THAT(refusal_of(path)->remedy(), testing::HasSubstr("newer GGUF"));
}

TEST_F(Experts, WithoutACountOrALayerAreRefused) {
    GgufBuilder uncounted;
    uncounted.key_text("general.architecture", "testmoe").key("testmoe.block_count", 1);
    add_moe_layer(uncounted, 0, 4);
    expect_refusal(uncounted.write(dir), "testmoe.expert_count");
    GgufBuilder beyond = moe_keys({.n_layer = 1});
    add_moe_layer(beyond, 1, 4);
    expect_refusal(beyond.write(dir), "beyond the model's 1 layers");
    GgufBuilder twice = small_moe();
    twice.tensor("blk.00.ffn_up_exps.weight", GGML_TYPE_Q8_0, {32, 8, 4});
    expect_refusal(twice.write(dir), "twice");
}

} // namespace
} // namespace larder

// The weight account of a 35B hybrid model at its real size, and of a small trained model.
#include "base/bytes.h"
#include "layout/account.h"
#include "layout/gguf_builder.h"
#include "layout/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace larder {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

void add_hybrid_layer(GgufBuilder &gguf, uint32_t layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    const auto weight = [&](const char *stem, ggml_type type, const std::vector<int64_t> &shape) {
        gguf.tensor(block + stem + ".weight", type, shape);
    };
    weight("attn_norm", GGML_TYPE_F32, {2048});
    if (layer % 4 == 3) {
        weight("attn_q", GGML_TYPE_Q4_K, {2048, 8192});
        weight("attn_k", GGML_TYPE_Q4_K, {2048, 512});
        weight("attn_v", GGML_TYPE_Q6_K, {2048, 512});
        weight("attn_output", GGML_TYPE_Q4_K, {4096, 2048});
    } else {
        weight("attn_qkv", GGML_TYPE_Q4_K, {2048, 8192});
        weight("ssm_out", GGML_TYPE_Q4_K, {4096, 2048});
    }
    weight("ffn_gate_inp", GGML_TYPE_F32, {2048, 256});
    weight("ffn_gate_exps", GGML_TYPE_Q4_K, {2048, 512, 256});
    weight("ffn_up_exps", GGML_TYPE_Q4_K, {2048, 512, 256});
    weight("ffn_down_exps", layer % 2 == 0 ? GGML_TYPE_Q6_K : GGML_TYPE_Q4_K, {512, 2048, 256});
    weight("ffn_up_shexp", GGML_TYPE_Q4_K, {2048, 512});
}

// 40 layers of 256 experts, top-8, down in Q6_K in every other layer. Its data is a hole in the file.
class AccountOf35B : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        GgufBuilder gguf;
        gguf.key_text("general.architecture", "qwen35moe").key("qwen35moe.block_count", 40);
        gguf.key("qwen35moe.expert_count", 256).key("qwen35moe.expert_used_count", 8);
        gguf.key("qwen35moe.full_attention_interval", 4);
        gguf.tensor("token_embd.weight", GGML_TYPE_Q4_K, {2048, 248320});
        for (uint32_t layer = 0; layer < 40; layer++) {
            add_hybrid_layer(gguf, layer);
        }
        gguf.tensor("output.weight", GGML_TYPE_Q6_K, {2048, 248320});
        const TempDir dir;
        layout = open_layout(gguf.write(dir));
        account = account_of(layout);
    }
    static inline ModelLayout layout;
    static inline WeightAccount account;
};

TEST_F(AccountOf35B, SplitsTheTotalIntoRoutedAndResidentByKind) {
    EXPECT_GT(layout.file_bytes[0], 19 * GiB);
    EXPECT_EQ(format_bytes(account.routed_bytes), "18.16 GiB");
    EXPECT_EQ(account.total_bytes, account.routed_bytes + account.resident_bytes);
    uint64_t by_kind = 0;
    for (const auto &[kind, bytes] : account.resident_by_kind) {
        by_kind += bytes;
        if (kind == TensorKind::embedding) {
            EXPECT_EQ(bytes, uint64_t{2048} * 248320 / 256 * 144);
        }
        if (kind == TensorKind::ssm) {
            EXPECT_EQ(bytes, uint64_t{30} * 4096 * 2048 / 256 * 144);
        }
    }
    EXPECT_EQ(by_kind, account.resident_bytes);
}

TEST_F(AccountOf35B, HasTwoExpertSizesInTwentyLayersEach) {
    ASSERT_THAT(account.expert_sizes, SizeIs(2));
    EXPECT_EQ(account.expert_sizes[0].expert_bytes, 1769472U);
    EXPECT_EQ(account.expert_sizes[1].expert_bytes, 2039808U);
    EXPECT_THAT(account.expert_sizes[0].layers, SizeIs(20));
    EXPECT_THAT(account.expert_sizes[1].layers, SizeIs(20));
    EXPECT_EQ(account.expert_sizes[1].layers[1], 2U);
    EXPECT_EQ(account.expert_sizes[0].n_expert, 20U * 256);
}

TEST_F(AccountOf35B, GivesTheWorkingSetOfOneTokenInALayerAndInAll) {
    EXPECT_EQ(format_bytes(account.layer_bytes_mean), "14.53 MiB");
    EXPECT_EQ(format_bytes(account.layer_bytes_max), "15.56 MiB");
    EXPECT_EQ(account.token_bytes, uint64_t{160} * (1769472 + 2039808));
    EXPECT_EQ(account.token_bytes_max, uint64_t{320} * 2039808);
}

TEST_F(AccountOf35B, CountsSlicesByClass) {
    ASSERT_THAT(layout.size_classes, SizeIs(2));
    EXPECT_EQ(layout.size_classes[0].slice_bytes, 589824U);
    EXPECT_EQ(layout.size_classes[0].n_slices_per_token, 8U * (40 * 2 + 20));
    EXPECT_EQ(layout.size_classes[1].slice_bytes, 860160U);
    EXPECT_EQ(layout.size_classes[1].n_slices_per_token, 8U * 20);
    EXPECT_LE(layout.size_classes[0].slot_bytes, 589824U + direct_io_alignment);
}

TEST_F(AccountOf35B, NamesEachSlicesQuantisation) {
    ASSERT_THAT(account.slices, SizeIs(4));
    EXPECT_EQ(account.slices[0].projection, "gate");
    EXPECT_EQ(account.slices[0].type, "q4_K");
    EXPECT_THAT(account.slices[0].layers, SizeIs(40));
    EXPECT_EQ(account.slices[3].projection, "down");
    EXPECT_EQ(account.slices[3].type, "q6_K");
    EXPECT_THAT(account.slices[3].layers, SizeIs(20));
}

TEST_F(AccountOf35B, TellsAttentionFromRecurrence) {
    EXPECT_THAT(layout.full_attention_layers, ElementsAre(3, 7, 11, 15, 19, 23, 27, 31, 35, 39));
    EXPECT_THAT(layout.recurrent_layers, SizeIs(30));
}

TEST(AccountOfADenseModel, HasNothingToStream) {
    const TempDir dir;
    GgufBuilder gguf;
    gguf.key_text("general.architecture", "llama").key("llama.block_count", 1);
    gguf.tensor("token_embd.weight", GGML_TYPE_F32, {32, 4});
    const WeightAccount account = account_of(open_layout(gguf.write(dir)));
    EXPECT_EQ(account.routed_bytes, 0U);
    EXPECT_THAT(account.expert_layers, SizeIs(0));
    EXPECT_EQ(account.layer_bytes_mean, 0U);
    EXPECT_EQ(account.token_bytes_max, 0U);
}

TEST(AccountOfTheStoriesModel, MatchesWhatItIs) {
    const auto root = std::filesystem::path(__FILE__).parent_path() / "../..";
    const auto path = root / "../shared/models/stories-moe-32x4.q8_0.gguf";
    if (!std::filesystem::exists(path)) {
        GTEST_SKIP() << "the model is not on this machine";
    }
    const ModelLayout layout = open_layout(path.string());
    EXPECT_EQ(layout.architecture, "qwen3moe");
    EXPECT_EQ(layout.n_layer, 5U);
    EXPECT_EQ(layout.n_expert, 32U);
    EXPECT_EQ(layout.n_expert_used, 4U);
    EXPECT_THAT(layout.full_attention_layers, SizeIs(5));
    EXPECT_THAT(layout.recurrent_layers, SizeIs(0));
    EXPECT_THAT(layout.expert_tensors, SizeIs(15));
    const WeightAccount account = account_of(layout);
    EXPECT_EQ(account.token_bytes, account.routed_bytes / 32 * 4);
    EXPECT_LT(account.total_bytes, layout.file_bytes[0]);
    for (const SliceFormat &slice : account.slices) {
        EXPECT_EQ(slice.type, "q8_0");
    }
}

TEST(LayerLists, AreWrittenAsRanges) {
    EXPECT_EQ(format_layers({}), "-");
    EXPECT_EQ(format_layers(std::vector<uint32_t>{4}), "4");
    EXPECT_EQ(format_layers(std::vector<uint32_t>{0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
}

} // namespace
} // namespace larder

// The choice of kernels, and the placement of resident matrices that follows.
#include "runtime/placement.h"
#include "support/model_fixture.h"
#include "support/stock_repacks.h"

#include <gmock/gmock.h>

#include <regex>

namespace larder::test {
namespace {

using testing::HasSubstr;

Kernels planned(const TestOptions &options) { return plan_only(options).kernels; }

TEST(ChoiceOfKernels, IsRepackedWhereAllExpertsStayAndMixedWhereTheyDoNot) {
    TestOptions options = attention_model().options();
    options.model.kernels.reset();
    EXPECT_EQ(planned(options), Kernels::repacked);
    options.runtime.plan.arena_bytes = open_layout(options.model.path).routed_bytes / 2;
    EXPECT_EQ(planned(options), Kernels::mixed);
}

// A dense model whose output matrix is its embedding, which exists twice if repacked.
TEST(ChoiceOfKernels, IsPlainWhereResidentMatricesHaveNoRoomToBeRepacked) {
    if (!stock_repacks(GGML_TYPE_Q4_0, 256, 256)) {
        GTEST_SKIP() << "ggml does not repack Q4_0 on this CPU";
    }
    const SmallModel model("--arch qwen3 --quant q4_0 --embd 1024 --vocab 65536");
    TestOptions options = model.options();
    options.runtime.plan.reserve_bytes = 0;
    options.model.kernels = Kernels::plain;
    const FixedBytes plain = plan_only(options).memory.fixed;
    const uint64_t embedding_bytes = open_layout(model.path()).find("token_embd.weight")->extent.bytes;
    options.runtime.plan.budget_bytes =
        plain.resident + plain.kv + plain.compute + plain.overhead + embedding_bytes / 2;
    options.model.kernels.reset();
    EXPECT_EQ(planned(options), Kernels::plain);
    *options.runtime.plan.budget_bytes += embedding_bytes;
    EXPECT_EQ(planned(options), Kernels::repacked);
}

TEST(ChoiceOfKernels, IsTheUsersWhereOneIsNamed) {
    TestOptions options = attention_model().options();
    for (const Kernels kernels : {Kernels::plain, Kernels::mixed, Kernels::repacked, Kernels::fast}) {
        options.model.kernels = kernels;
        EXPECT_EQ(planned(options), kernels);
        EXPECT_EQ(open_as(options)->kernels(), kernels);
    }
}

TEST(ChoiceOfKernels, OfStockKnowsNoFastOnes) {
    TestOptions options = attention_model().options();
    options.residency = Residency::stock;
    options.model.kernels = Kernels::fast;
    const Error error = error_of([&] { open_as(options); });
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_THAT(error.what(), HasSubstr("stock llama.cpp has no kernels 'fast'"));
}

// Otherwise the comparison of `mixed` with stock would not show which weights are plain.
TEST(KernelPaths, GiveOtherBitsEach) {
    if (!stock_repacks(GGML_TYPE_Q4_K, 256, 256)) {
        GTEST_SKIP() << "ggml does not repack Q4_K on this CPU";
    }
    TestOptions options = attention_model().options();
    std::vector<std::vector<float>> logits;
    for (const Residency residency : {Residency::arena, Residency::stock}) {
        for (const Kernels kernels : {Kernels::plain, Kernels::mixed, Kernels::repacked}) {
            options.residency = residency;
            options.model.kernels = kernels;
            const auto engine = open_as(options);
            Session session(*engine, greedy());
            ASSERT_TRUE(session.prefill(some_tokens(9, engine->n_vocab())));
            logits.push_back(logits_of(session));
        }
    }
    for (size_t i = 0; i < logits.size(); i++) {
        for (size_t j = 0; j < i; j++) {
            EXPECT_EQ(same_bits(logits[i], logits[j]), i == j + 3) << i << " and " << j;
        }
    }
}

// A dense model whose output matrix is its embedding: looked up in the plain copy, multiplied in the repacked one.
TEST(TiedEmbeddings, AreThereTwiceWhenRepackedAndGiveStocksBits) {
    if (!stock_repacks(GGML_TYPE_Q4_0, 256, 256)) {
        GTEST_SKIP() << "ggml does not repack Q4_0 on this CPU";
    }
    const SmallModel model("--arch qwen3 --quant q4_0");
    TestOptions options = model.options();
    options.model.kernels = Kernels::plain;
    const uint64_t plain_bytes = plan_only(options).memory.fixed.resident;
    options.model.kernels = Kernels::repacked;
    const uint64_t repacked_bytes = plan_only(options).memory.fixed.resident;
    const uint64_t embedding_bytes = open_layout(model.path()).find("token_embd.weight")->extent.bytes;
    EXPECT_EQ(repacked_bytes - plain_bytes, embedding_bytes);

    const auto larder = open_as(options);
    options.residency = Residency::stock;
    const auto stock = open_as(options);
    Session ours(*larder, greedy());
    Session theirs(*stock, greedy());
    const std::vector<Token> prompt = some_tokens(9, larder->n_vocab());
    ASSERT_TRUE(ours.prefill(prompt));
    ASSERT_TRUE(theirs.prefill(prompt));
    EXPECT_TRUE(same_bits(logits_of(ours), logits_of(theirs)));
}

// --- pattern_of_names() ---

bool matches(const std::string &pattern, const std::string &name) {
    return std::regex_search(name, std::regex(pattern)); // as llama.cpp does
}

TEST(PatternOfNames, MatchesTheseNamesAndNoOthers) {
    const std::vector<std::string> names = {"output.weight", "blk.0.attn_q.weight", "blk.11.attn_q.weight",
                                            "blk.1.attn_v.weight", "blk.12.attn_v.weight"};
    const std::vector<std::string> others = {"token_embd.weight",   "output_norm.weight",   "blk.0.attn_v.weight",
                                             "blk.2.attn_v.weight", "blk.11.attn_v.weight", "blk.0.attn_q_norm.weight",
                                             "blk.0.attn_q.bias",   "outputXweight",        "blk.1.attn_v.weight.x"};
    const std::string pattern = pattern_of_names(names, others);
    for (const std::string &name : names) {
        EXPECT_TRUE(matches(pattern, name)) << name << " by " << pattern;
    }
    for (const std::string &other : others) {
        EXPECT_FALSE(matches(pattern, other)) << other << " by " << pattern;
    }
}

TEST(PatternOfNames, TakesCharactersThatMeanSomethingInRegularExpressions) {
    const std::string pattern = pattern_of_names({"a.b+c(d)[e]{f}|g^h$i*j?k\\l"}, {"a.b"});
    EXPECT_TRUE(matches(pattern, "a.b+c(d)[e]{f}|g^h$i*j?k\\l"));
    EXPECT_FALSE(matches(pattern, "a.b"));
}

// llama.cpp compiles the expression for each tensor of the model.
TEST(PatternOfNames, IsShortWhereALayersNumberIsAllThatDiffers) {
    std::vector<std::string> names;
    for (int layer = 0; layer < 200; layer++) {
        names.push_back("blk." + std::to_string(layer) + ".attn_output.weight");
    }
    EXPECT_LT(pattern_of_names(names, {"output.weight"}).size(), 60U);
}

} // namespace
} // namespace larder::test

// Logits of each prompt token and each decoded token equal those of stock llama.cpp to the last bit, with an arena for
// one token's experts. Covers architectures, quantisations, prompt lengths, ubatch sizes and threads. Each run also
// checks that experts were read and evicted, so no comparison is trivial.
#include "gates/compare.h"
#include "support/scratch.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace larder::test {
namespace {

struct ModelCase {
    std::string name;
    std::string arguments; // arguments of larder-make-model
};

void PrintTo(const ModelCase &model, std::ostream *out) { *out << model.name; }

class Equality : public testing::TestWithParam<ModelCase> {
  protected:
    Scratch scratch_;
};

TEST_P(Equality, LogitsAreStocksToTheLastBitWithACacheOfOneTokensExperts) {
    const std::string model = make_model(scratch_, "model.gguf", GetParam().arguments);
    for (const uint32_t threads : {1U, 2U}) {
        for (const uint32_t ubatch : {1U, 32U, 512U}) {
            compare_at(model, ubatch, threads);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Equality,
                         testing::Values(ModelCase{"qwen3moe_q4_k_m", "--arch qwen3moe --quant q4_k_m"},
                                         ModelCase{"qwen3moe_q8_0", "--arch qwen3moe --quant q8_0"},
                                         ModelCase{"qwen3moe_f16", "--arch qwen3moe --quant f16"},
                                         ModelCase{"qwen3moe_iq2_xs",
                                                   "--arch qwen3moe --quant iq2_xs"}, // uses ggml's panel kernel
                                         ModelCase{"qwen35moe_q4_k_m", "--arch qwen35moe --quant q4_k_m"},
                                         ModelCase{"smallthinker_q4_k_m", "--arch smallthinker --quant q4_k_m"},
                                         ModelCase{"gemma4_q4_k_m", "--arch gemma4 --quant q4_k_m"},
                                         ModelCase{"gptoss_mxfp4", "--arch gpt-oss --quant mxfp4"},
                                         ModelCase{"deepseek2_q4_k_m", "--arch deepseek2 --quant q4_k_m"},
                                         ModelCase{"glm4moe_q6_k", "--arch glm4moe --quant q6_k"},
                                         ModelCase{"mixtral_q4_0", "--arch llama --quant q4_0 --experts 8 --top-k 2"},
                                         ModelCase{"olmoe_q8_0", "--arch olmoe --quant q8_0"},
                                         ModelCase{"qwen2moe_q5_k_m", "--arch qwen2moe --quant q5_k_m"}),
                         [](const auto &model) { return model.param.name; });

// The same with all weights repacked that stock repacks on this CPU.
class EqualityOfRepacked : public Equality {};

TEST_P(EqualityOfRepacked, LogitsAreStocksToTheLastBitWithACacheOfOneTokensExperts) {
    const std::string model = make_model(scratch_, "model.gguf", GetParam().arguments);
    compare_at(model, 1, 1, Kernels::repacked, {1, 7, 40});
    compare_at(model, 32, 2, Kernels::repacked, {7, 130});
    compare_at(model, 512, 2, Kernels::repacked, {7, 300});
}

INSTANTIATE_TEST_SUITE_P(Models, EqualityOfRepacked,
                         testing::Values(ModelCase{"qwen3moe_q4_k_m", "--arch qwen3moe --quant q4_k_m"},
                                         ModelCase{"qwen3moe_q4_0", "--arch qwen3moe --quant q4_0"},
                                         ModelCase{"qwen3moe_q8_0", "--arch qwen3moe --quant q8_0"},
                                         ModelCase{"qwen3moe_q2_k", "--arch qwen3moe --quant q2_k"},
                                         ModelCase{"qwen3moe_iq4_nl", "--arch qwen3moe --quant iq4_nl"},
                                         ModelCase{"qwen35moe_q4_k_m", "--arch qwen35moe --quant q4_k_m"},
                                         ModelCase{"gemma4_q4_k_m", "--arch gemma4 --quant q4_k_m"}, // tied embeddings
                                         ModelCase{"gptoss_mxfp4", "--arch gpt-oss --quant mxfp4"},
                                         ModelCase{"deepseek2_q4_k_m", "--arch deepseek2 --quant q4_k_m"},
                                         ModelCase{"qwen2moe_q5_k_m", "--arch qwen2moe --quant q5_k_m"}),
                         [](const auto &model) { return model.param.name; });

// Plain experts, and other weights repacked, as in stock when experts are kept out of its repack buffer.
class EqualityOfMixed : public Equality {};

TEST_P(EqualityOfMixed, LogitsAreStocksToTheLastBitWithACacheOfOneTokensExperts) {
    const std::string model = make_model(scratch_, "model.gguf", GetParam().arguments);
    compare_at(model, 1, 1, Kernels::mixed, {7, 40});
    compare_at(model, 32, 2, Kernels::mixed, {7, 130});
}

INSTANTIATE_TEST_SUITE_P(Models, EqualityOfMixed,
                         testing::Values(ModelCase{"qwen3moe_q4_k_m", "--arch qwen3moe --quant q4_k_m"},
                                         ModelCase{"gemma4_q4_0", "--arch gemma4 --quant q4_0"}, // tied embeddings
                                         ModelCase{"gptoss_mxfp4", "--arch gpt-oss --quant mxfp4"}),
                         [](const auto &model) { return model.param.name; });

TEST(EqualityOfShards, AModelInShardsGivesTheLogitsOfTheWhole) {
    const Scratch scratch;
    const std::string whole = make_model(scratch, "whole.gguf", "--arch qwen3moe --quant q4_k_m");
    make_model(scratch, "parts.gguf", "--arch qwen3moe --quant q4_k_m --split 3");
    const std::string parts = scratch / "parts-00001-of-00003.gguf";
    const auto stock = open_as(options_for(whole, Residency::stock, 512, 2));
    const auto larder = open_as(options_for(parts, Residency::arena, 512, 2));
    ASSERT_EQ(larder->layout().files.size(), 3U);
    const std::vector<Token> prompt = tokens_of_length(130, larder->n_vocab());
    EXPECT_EQ(first_different_row(evaluate(*stock, prompt), evaluate(*larder, prompt), larder->n_vocab()), SIZE_MAX);
    EXPECT_GT(larder->figures().store.evictions, 0U);
}

} // namespace
} // namespace larder::test

// The gate of gates: logits of every prompt and decoded token are those of stock llama.cpp, to the last bit, with a
// cache that holds one token's experts. Over architectures, quantisations, prompt lengths, ubatch sizes and threads;
// and every run proves that experts were read and evicted, so that no comparison is empty.
#include "engine/engine.h"
#include "support/scratch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace larder::test {
namespace {

constexpr uint32_t n_decode = 6;

struct ModelCase {
    std::string name;
    std::string arguments; // of larder-make-model
};

void PrintTo(const ModelCase &model, std::ostream *out) { *out << model.name; }

std::vector<Token> tokens_of_length(size_t n, uint32_t n_vocab) {
    std::vector<Token> tokens(n);
    uint64_t state = 1; // any numbers will do, if they are the same every time
    for (Token &token : tokens) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        token = static_cast<Token>((state >> 33) % n_vocab);
    }
    return tokens;
}

// Logits of every evaluated token, row after row.
struct Evaluation {
    std::vector<float> logits;
    std::vector<Token> decoded;
};

Evaluation evaluate(Engine &engine, const std::vector<Token> &prompt) {
    Evaluation evaluation;
    SamplingOptions greedy;
    greedy.temperature = 0;
    Session session(engine, greedy);
    const auto keep = [&](uint32_t i) {
        const std::span<const float> row = session.logits(i);
        evaluation.logits.insert(evaluation.logits.end(), row.begin(), row.end());
        return static_cast<Token>(std::max_element(row.begin(), row.end()) - row.begin());
    };
    Token next = 0;
    session.on_batch = [&](uint32_t /*first*/, uint32_t count) {
        for (uint32_t i = 0; i < count; i++) {
            next = keep(i);
        }
    };
    EXPECT_TRUE(session.prefill(prompt));
    for (uint32_t n = 0; n < n_decode; n++) {
        evaluation.decoded.push_back(next);
        EXPECT_TRUE(session.decode(next));
        next = keep(0);
    }
    return evaluation;
}

size_t first_different_row(const Evaluation &a, const Evaluation &b, size_t n_vocab) {
    for (size_t i = 0; i + n_vocab <= a.logits.size(); i += n_vocab) {
        if (std::memcmp(&a.logits[i], &b.logits[i], n_vocab * sizeof(float)) != 0) {
            return i / n_vocab;
        }
    }
    return SIZE_MAX;
}

EngineOptions options_for(const std::string &model, Residency residency, uint32_t ubatch, uint32_t threads,
                          Kernels kernels = Kernels::plain) {
    EngineOptions options;
    options.model_path = model;
    options.residency = residency;
    options.kernels = kernels;
    options.ctx_tokens = 768;
    options.ubatch_tokens = ubatch;
    options.threads = threads;
    options.logits_for_all = true;
    if (residency == Residency::arena) { // as small as it can be: one token's experts
        uint64_t floor_bytes = 0;
        for (const SizeClass &size_class : open_layout(model).size_classes) {
            floor_bytes += size_class.n_slices_per_token * size_class.slot_bytes;
        }
        options.wishes.arena_bytes = floor_bytes;
    }
    return options;
}

void compare_at(const std::string &model, uint32_t ubatch, uint32_t threads, Kernels kernels = Kernels::plain,
                const std::vector<size_t> &lengths = {1, 7, 130, 512}) {
    SCOPED_TRACE(fmt::format("ubatch {} threads {} kernels {}", ubatch, threads, to_string(kernels)));
    const auto stock = Engine::open(options_for(model, Residency::stock, ubatch, threads, kernels));
    const auto larder = Engine::open(options_for(model, Residency::arena, ubatch, threads, kernels));
    ASSERT_EQ(larder->plan().arena_bytes, larder->plan().floor_bytes);
    ASSERT_LT(larder->plan().arena_bytes, larder->layout().routed_bytes / 2);
    for (const size_t length : lengths) {
        SCOPED_TRACE(fmt::format("prompt of {} tokens", length));
        const StoreStats before = larder->stats().store;
        const std::vector<Token> prompt = tokens_of_length(length, larder->n_vocab());
        const Evaluation theirs = evaluate(*stock, prompt);
        const Evaluation ours = evaluate(*larder, prompt);
        ASSERT_EQ(theirs.logits.size(), (length + n_decode) * larder->n_vocab());
        ASSERT_EQ(ours.decoded, theirs.decoded);
        ASSERT_EQ(first_different_row(theirs, ours, larder->n_vocab()), SIZE_MAX);
        const StoreStats after = larder->stats().store;
        EXPECT_GT(after.expert_misses, before.expert_misses);
        EXPECT_GT(after.evictions, before.evictions);
        EXPECT_GT(after.bytes_read, before.bytes_read);
    }
}

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
                                                   "--arch qwen3moe --quant iq2_xs"}, // ggml's panel kernel
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

// The same with every weight repacked that stock repacks: on AVX2 those of types q4_0, q4_K, iq4_nl and mxfp4.
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

// Experts plain and the rest repacked, as stock does when experts are kept out of its repack buffer.
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
    const auto stock = Engine::open(options_for(whole, Residency::stock, 512, 2));
    const auto larder = Engine::open(options_for(parts, Residency::arena, 512, 2));
    ASSERT_EQ(larder->layout().files.size(), 3U);
    const std::vector<Token> prompt = tokens_of_length(130, larder->n_vocab());
    EXPECT_EQ(first_different_row(evaluate(*stock, prompt), evaluate(*larder, prompt), larder->n_vocab()), SIZE_MAX);
    EXPECT_GT(larder->stats().store.evictions, 0U);
}

TEST(EqualityOfATrainedModel, LogitsAreStocksToTheLastBit) {
    const std::string model = std::string(LARDER_SOURCE_DIR) + "/../shared/models/stories-moe-32x4.q8_0.gguf";
    if (!std::filesystem::exists(model)) {
        GTEST_SKIP() << "the trained test model is not beside this checkout";
    }
    compare_at(model, 1, 1);
    compare_at(model, 512, 2);
}

} // namespace
} // namespace larder::test

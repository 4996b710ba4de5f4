// Keys of the tokenizer: values that llama.cpp trusts or aborts on are refused with their key.
#include "layout/gguf_builder.h"
#include "layout/layout.h"
#include "layout/refuses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace larder {
namespace {

constexpr const char *tokens_key = "tokenizer.ggml.tokens";

class Vocabulary : public testing::Test {
  protected:
    // The small model, whose embedding has ten rows, with this tokenizer.
    static GgufBuilder model(const std::string &tokenizer) {
        GgufBuilder gguf = small_moe();
        gguf.key_text("tokenizer.ggml.model", tokenizer);
        return gguf;
    }
    static std::vector<std::string> ten_tokens() { return {"a", "b", "c", "d", "e", "f", "g", "h", "i", "\\n"}; }
    static GgufBuilder model_with_tokens(const std::string &tokenizer = "gpt2") {
        GgufBuilder gguf = model(tokenizer);
        gguf.key_texts(tokens_key, ten_tokens());
        return gguf;
    }
    void accepted(const GgufBuilder &gguf) {
        const std::optional<Error> error = refusal_of(gguf.write(dir));
        EXPECT_FALSE(error) << error->what();
    }
    TempDir dir;
};

TEST_F(Vocabulary, OfEveryTokenizerNeedsTokens) {
    for (const char *tokenizer : {"gpt2", "llama", "bert", "t5", "rwkv", "plamo2", "test", "a new one"}) {
        expect_refusal(model(tokenizer).write(dir), "has no key 'tokenizer.ggml.tokens'");
        GgufBuilder empty = model(tokenizer);
        empty.key_texts(tokens_key, {});
        expect_refusal(empty.write(dir), "has an empty 'tokenizer.ggml.tokens'");
        accepted(model_with_tokens(tokenizer));
    }
    GgufBuilder numbers = model("gpt2");
    numbers.key_array<uint32_t>(tokens_key, GGUF_TYPE_UINT32, std::vector<uint32_t>(10));
    expect_refusal(numbers.write(dir), tokens_key);
    GgufBuilder text = model("gpt2");
    text.key_text(tokens_key, "a b c");
    expect_refusal(text.write(dir), tokens_key);
}

TEST_F(Vocabulary, HasARowOfTheEmbeddingForEachToken) {
    for (const size_t n : {9U, 11U}) {
        std::vector<std::string> tokens = ten_tokens();
        tokens.resize(n, "another");
        GgufBuilder gguf = model("gpt2");
        gguf.key_texts(tokens_key, tokens);
        expect_refusal(gguf.write(dir), fmt::format("key 'tokenizer.ggml.tokens' has {} tokens", n));
        gguf.tensor("d2t", GGML_TYPE_I64, {10}); // the token map of a draft model
        accepted(gguf);
    }
}

TEST_F(Vocabulary, HasAScoreAndATypeForEachToken) {
    const auto floats = [](size_t n) { return std::vector<float>(n); };
    const auto types = [](size_t n) { return std::vector<int32_t>(n, 1); };
    GgufBuilder good = model_with_tokens();
    good.key_array<float>("tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, floats(10));
    good.key_array<int32_t>("tokenizer.ggml.token_type", GGUF_TYPE_INT32, types(10));
    good.key_texts("tokenizer.ggml.merges", {"a b"});
    accepted(good);
    GgufBuilder few_scores = model_with_tokens();
    few_scores.key_array<float>("tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, floats(9));
    expect_refusal(few_scores.write(dir), "key 'tokenizer.ggml.scores' has 9 elements for 10 tokens");
    GgufBuilder few_types = model_with_tokens();
    few_types.key_array<int32_t>("tokenizer.ggml.token_type", GGUF_TYPE_INT32, types(1));
    expect_refusal(few_types.write(dir), "tokenizer.ggml.token_type");
    GgufBuilder other_types = model_with_tokens();
    other_types.key_texts("tokenizer.ggml.token_type", ten_tokens());
    expect_refusal(other_types.write(dir), "tokenizer.ggml.token_type");
    GgufBuilder one_score = model_with_tokens();
    one_score.key("tokenizer.ggml.scores", 7);
    expect_refusal(one_score.write(dir), "tokenizer.ggml.scores");
    GgufBuilder merges = model_with_tokens();
    merges.key("tokenizer.ggml.merges", 7);
    expect_refusal(merges.write(dir), "tokenizer.ggml.merges");
}

TEST_F(Vocabulary, HasNoTokenTwice) {
    std::vector<std::string> tokens = ten_tokens();
    tokens[7] = tokens[3] = "\x1b[31m" + std::string(100'000, 'x');
    GgufBuilder gguf = model("gpt2");
    gguf.key_texts(tokens_key, tokens);
    const std::string path = gguf.write(dir);
    expect_refusal(path, "has the token '?[31mxxx");
    EXPECT_LT(refusal_of(path)->message().size(), path.size() + 300);
    GgufBuilder empty = model("gpt2"); // llama.cpp replaces empty texts by numbered names
    empty.key_texts(tokens_key, std::vector<std::string>(10));
    accepted(empty);
}

TEST_F(Vocabulary, OfAnRwkvTokenizerIsOne) {
    accepted(model_with_tokens("rwkv"));
    GgufBuilder another = model("rwkv");
    std::vector<std::string> tokens = ten_tokens();
    tokens.back() = "\xc4\x8a"; // GPT-2's newline
    another.key_texts(tokens_key, tokens);
    expect_refusal(another.write(dir), "is not an RWKV vocabulary");
}

TEST_F(Vocabulary, WithoutATokenizerIsNoLargerThanTheEmbedding) {
    for (const char *none : {"none", "no_vocab"}) {
        GgufBuilder gguf = model(none);
        accepted(gguf);
        gguf.key("testmoe.vocab_size", 10);
        accepted(gguf);
        GgufBuilder huge = model(none);
        huge.key("testmoe.vocab_size", 4'000'000'000);
        expect_refusal(huge.write(dir), "key 'testmoe.vocab_size' is 4000000000");
    }
}

} // namespace
} // namespace larder

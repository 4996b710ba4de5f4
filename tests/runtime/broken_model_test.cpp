// Models whose parts do not fit together: a good file with another hyperparameter or without a tensor is refused with
// the name of the tensor, before llama.cpp runs.
#include "support/model_fixture.h"
#include "support/rewritten_gguf.h"

#include <gguf.h>

namespace larder::test {
namespace {

constexpr const char *shape_of_model = "--arch qwen3moe --quant q8_0 --layers 2 --experts 8 --top-k 2";

class BrokenModel : public testing::Test {
  protected:
    std::string with_key(const char *key, uint32_t value) {
        RewrittenGguf gguf(good_);
        EXPECT_GE(gguf_find_key(gguf.keys(), key), 0) << key;
        return gguf.set(key, value).write(scratch_ / "broken.gguf");
    }
    std::string without(const std::string &tensor) {
        return RewrittenGguf(good_).drop(tensor).write(scratch_ / "broken.gguf");
    }
    static TestOptions options(const std::string &path, Residency residency = Residency::arena) {
        TestOptions options;
        options.model.path = path;
        options.residency = residency;
        options.model.context.ctx_tokens = 64;
        options.model.context.threads = 1;
        return options;
    }
    static Error refusal(const std::string &path) {
        return error_of([&] { open_as(options(path)); });
    }
    static std::vector<float> logits(const std::string &path, Residency residency) {
        const auto engine = open_as(options(path, residency));
        Session session(*engine, greedy());
        EXPECT_TRUE(session.prefill(some_tokens(9, engine->n_vocab())));
        return logits_of(session);
    }

    Scratch scratch_;
    std::string good_ = make_model(scratch_, "good.gguf", shape_of_model);
};

TEST_F(BrokenModel, IsOnlyRewrittenByTheseTestsWhereTheySaySo) {
    const std::string copy = RewrittenGguf(good_).write(scratch_ / "copy.gguf");
    EXPECT_TRUE(same_bits(logits(good_, Residency::stock), logits(copy, Residency::arena)));
}

TEST_F(BrokenModel, WithExpertsOfAnotherSizeThanItsKeySaysIsRefusedByTheTensorsName) {
    const Error error = refusal(with_key("qwen3moe.expert_feed_forward_length", 128));
    EXPECT_EQ(error.kind(), ErrorKind::model);
    EXPECT_NE(error.message().find("_exps.weight"), std::string::npos) << error.what();
    EXPECT_FALSE(error.remedy().empty());
}

TEST_F(BrokenModel, WithHeadsOfAnotherSizeThanItsKeySaysIsRefusedByTheTensorsName) {
    const Error error = refusal(with_key("qwen3moe.attention.key_length", 128));
    EXPECT_EQ(error.kind(), ErrorKind::model);
    EXPECT_NE(error.message().find("attn_"), std::string::npos) << error.what();
}

TEST_F(BrokenModel, WithFewerExpertsThanItsKeySaysIsRefusedByTheTensorsName) {
    const Error error = refusal(with_key("qwen3moe.expert_count", 16));
    EXPECT_EQ(error.kind(), ErrorKind::model);
    EXPECT_NE(error.message().find("_exps.weight"), std::string::npos) << error.what();
}

TEST_F(BrokenModel, WithMoreLayersInItsKeyThanInTheFileIsRefusedByTheTensorsName) {
    const Error error = refusal(with_key("qwen3moe.block_count", 3));
    EXPECT_EQ(error.kind(), ErrorKind::model);
    EXPECT_NE(error.message().find("blk.2."), std::string::npos) << error.what();
}

TEST_F(BrokenModel, WithoutATensorItNeedsIsRefusedByTheTensorsName) {
    for (const char *tensor : {"blk.0.attn_q.weight", "blk.1.ffn_up_exps.weight", "blk.1.ffn_gate_inp.weight",
                               "token_embd.weight", "output_norm.weight"}) {
        const Error error = refusal(without(tensor));
        EXPECT_EQ(error.kind(), ErrorKind::model);
        EXPECT_NE(error.message().find(tensor), std::string::npos) << error.what();
    }
}

TEST_F(BrokenModel, WithoutATensorThatIsOptionalIsWhole) {
    const std::string tied = without("output.weight"); // the embedding is then also the output matrix
    const std::vector<float> stock = logits(tied, Residency::stock);
    EXPECT_TRUE(same_bits(stock, logits(tied, Residency::arena)));
    EXPECT_FALSE(same_bits(stock, logits(good_, Residency::stock)));
}

// As in embedding models that were made from a language model.
TEST_F(BrokenModel, ThatIsNotCausalIsRefusedAsAnEncoder) {
    RewrittenGguf gguf(good_);
    gguf_set_val_bool(gguf.keys(), "qwen3moe.attention.causal", false);
    const std::string path = gguf.write(scratch_ / "broken.gguf");
    for (const Residency residency : {Residency::arena, Residency::page, Residency::stock}) {
        const Error error = error_of([&] { open_as(options(path, residency)); });
        EXPECT_EQ(error.kind(), ErrorKind::model);
        EXPECT_NE(error.message().find("qwen3moe is an encoder"), std::string::npos) << error.what();
    }
    EXPECT_EQ(error_of([&] { plan_only(options(path)); }).kind(), ErrorKind::model);
}

TEST_F(BrokenModel, CutShortIsRefused) {
    std::filesystem::resize_file(good_, std::filesystem::file_size(good_) - 100);
    EXPECT_EQ(refusal(good_).kind(), ErrorKind::model);
}

} // namespace
} // namespace larder::test

// Models that would crash llama.cpp, make it loop or exhaust memory are refused with one line that names the key or
// tensor, before llama.cpp runs.
#include "support/process.h"
#include "support/rewritten_gguf.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace larder::test {
namespace {

using testing::HasSubstr;

class HostileModel : public testing::Test {
  protected:
    using Edit = std::function<void(RewrittenGguf &)>;

    // Expects inspect, plan and run to refuse the edited model with one line that contains `text`.
    void refused(const Edit &edit, const std::string &text) {
        RewrittenGguf gguf(model_);
        edit(gguf);
        const std::string path = gguf.write(scratch_ / "edited.gguf");
        const std::vector<std::vector<std::string>> commands = {
            {"inspect", path}, {"inspect", "--json", path}, {"plan", "-m", path}, {"run", "-m", path, "-p", "hi"}};
        for (const std::vector<std::string> &command : commands) {
            const Finished result = larder(command);
            EXPECT_EQ(result.exit_code, 1) << command.front() << ": " << result.err;
            EXPECT_THAT(result.err, HasSubstr("edited.gguf"));
            EXPECT_THAT(result.err, HasSubstr(text)) << command.front();
            EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
            EXPECT_EQ(result.out, "");
        }
    }
    void refused_number(const std::string &key, uint32_t value) {
        refused([&](RewrittenGguf &gguf) { gguf.set(key, value); }, "key '" + key + "' is " + std::to_string(value));
    }

    Scratch scratch_;
    std::string model_ =
        make_model(scratch_, "good.gguf", "--arch qwen35moe --layers 4 --experts 4 --top-k 2 --vocab 600");
};

TEST_F(HostileModel, IsNotTheOneThatOnlyWasRewritten) {
    const std::string path = RewrittenGguf(model_).write(scratch_ / "copy.gguf");
    EXPECT_EQ(larder({"run", "-m", path, "-p", "hi", "-n", "1", "-q"}).exit_code, 0);
}

TEST_F(HostileModel, WithATypeThatCannotBeMultipliedIsRefused) {
    for (const char *tensor : {"blk.0.ffn_up_exps.weight", "blk.3.attn_q.weight", "output.weight",
                               "blk.0.ffn_gate_inp.weight", "token_embd.weight"}) {
        for (const ggml_type type : {GGML_TYPE_Q8_1, GGML_TYPE_F64}) {
            refused([&](RewrittenGguf &gguf) { gguf.set_type(tensor, type); },
                    std::string("tensor '") + tensor + "' has the type " + ggml_type_name(type));
        }
    }
    refused([](RewrittenGguf &gguf) { gguf.set_type("blk.0.attn_norm.weight", GGML_TYPE_I8); },
            "tensor 'blk.0.attn_norm.weight' has the type i8");
}

TEST_F(HostileModel, WithADivisorOfZeroOrASizeOfAllMemoryIsRefused) {
    refused_number("qwen35moe.full_attention_interval", 0);
    refused_number("qwen35moe.ssm.inner_size", 2147483648);
    refused_number("qwen35moe.rope.dimension_count", 0); // an endless loop in llama.cpp
    refused_number("qwen35moe.attention.key_length", 1000000);
}

TEST_F(HostileModel, WithoutATensorThatLlamaCppTakesForOptionalIsRefused) {
    refused(
        [](RewrittenGguf &gguf) {
            for (const char *tensor : {"blk.0.attn_qkv.weight", "blk.1.attn_qkv.weight", "blk.2.attn_qkv.weight"}) {
                gguf.drop(tensor);
            }
        },
        "has no tensor 'blk.0.attn_qkv.weight'");
}

TEST_F(HostileModel, WithATokenizerThatIsNotThereIsRefused) {
    refused([](RewrittenGguf &gguf) { gguf.set("tokenizer.ggml.model", "rwkv"); }, "is not an RWKV vocabulary");
    refused([](RewrittenGguf &gguf) { gguf.set("tokenizer.ggml.model", "test").drop_key("tokenizer.ggml.tokens"); },
            "has no key 'tokenizer.ggml.tokens'");
    refused(
        [](RewrittenGguf &gguf) {
            gguf.set("tokenizer.ggml.model", "none").set("qwen35moe.vocab_size", 4'000'000'000);
        },
        "key 'qwen35moe.vocab_size' is 4000000000");
}

} // namespace
} // namespace larder::test

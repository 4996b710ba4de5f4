// Texts, grammars and chat templates that would crash llama.cpp, make it run for ever or exhaust memory.
#include "support/process.h"
#include "support/rewritten_gguf.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace larder::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class HostileText : public testing::Test {
  protected:
    [[nodiscard]] static Finished run_with(const std::string &model, std::vector<std::string> more) {
        std::vector<std::string> arguments = {"run", "-m", model, "-n", "1", "-q", "--temp", "0", "-t", "1"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return larder(arguments);
    }
    static void expect_line(const Finished &result, int exit_code, const std::string &text) {
        EXPECT_EQ(result.exit_code, exit_code) << result.err;
        EXPECT_THAT(result.err, HasSubstr(text));
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
        EXPECT_EQ(std::ranges::count(result.err, '\x1b'), 0);
    }
    [[nodiscard]] std::string with_template(const std::string &text) const {
        return RewrittenGguf(model_).set("tokenizer.chat_template", text.c_str()).write(scratch_ / "edited.gguf");
    }
    [[nodiscard]] uint64_t prompt_tokens(std::vector<std::string> more) const {
        more.insert(more.end(), {"--stats", scratch_ / "s.json"});
        EXPECT_EQ(run_with(model_, more).exit_code, 0);
        return nlohmann::json::parse(contents(scratch_ / "s.json")).at("prompt_tokens");
    }

    Scratch scratch_;
    std::string model_ =
        make_model(scratch_, "m.gguf", "--arch qwen3moe --quant q8_0 --layers 2 --experts 4 --top-k 2");
};

// 21 of llama.cpp's pre-tokenizers recurse once for each of these characters.
TEST_F(HostileText, ALongRunOfCharactersIsAnsweredOrRefused) {
    for (const char *pre : {"gpt-4o", "tekken", "deepseek-v3"}) {
        const std::string path = RewrittenGguf(model_).set("tokenizer.ggml.pre", pre).write(scratch_ / "edited.gguf");
        for (const char c : {'-', 'a'}) {
            Process chat({LARDER_PROGRAM, "run", "-m", path, "-n", "1", "-q", "-c", "4096"});
            chat.type(std::string(30'000, c) + "\nhello\n");
            const Finished result = chat.wait();
            EXPECT_LE(result.exit_code, 2) << pre << ": " << result.err;
            EXPECT_GE(std::ranges::count(result.out, '\n'), 1) << "the next one is answered";
        }
    }
}

TEST_F(HostileText, AGrammarThatLlamaCppCannotBearIsRefused) {
    std::string many_ways = "root ::= ";
    for (int i = 0; i < 1000; i++) {
        many_ways += "\"a\"? ";
    }
    const auto refused = [&](const std::string &grammar, const std::string &text) {
        expect_line(run_with(model_, {"-p", "hi", "--grammar", grammar}), 2, text);
    };
    refused("root ::= " + std::string(20'000, '('), "the grammar is nested too deeply");
    refused("root ::= \"a\"{5,0}", "the grammar takes more than");
    refused(many_ways, "in more than 512 ways at once");
    refused("\x1b[31mroot", "the grammar cannot be read: expecting name at ?[31mroot");
    refused("other ::= \"a\"", "no rule named root");
    refused("root ::= root \"a\"", "a rule that begins with itself");
}

TEST_F(HostileText, AGrammarIsFollowed) {
    EXPECT_EQ(run_with(model_, {"-p", "hi", "-n", "9", "--grammar", "root ::= \"b\" \"c\""}).out, "bc\n");
}

TEST_F(HostileText, AChatTemplateThatDoesNotEndOrTakesAllMemoryIsRefusedWithTheRemedy) {
    const auto refused = [&](const std::string &source, const std::string &text) {
        const std::string path = with_template(source);
        const Finished result = run_with(path, {"-p", "hi"});
        expect_line(result, 1, "the model's chat template " + text);
        EXPECT_THAT(result.err, HasSubstr("use --raw"));
        EXPECT_EQ(run_with(path, {"-p", "hi", "--raw"}).exit_code, 0);
    };
    refused("{% macro a(x) %}{{ a(x) }}{% endmacro %}{{ a(1) }}", "is nested or recurses too deeply");
    refused("{{ " + std::string(50'000, '[') + std::string(50'000, ']') + " }}", "is nested or recurses too deeply");
    refused("{{ 'a' * 1000000000 }}", "");
    refused("{% set ns = namespace(x='aaaa') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
            "takes more than");
    refused("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}x", "");
}

TEST_F(HostileText, AControlTokenInAMessageIsTextUnlessAskedFor) {
    const uint64_t plain = prompt_tokens({"-p", "ab"});
    const uint64_t as_text = prompt_tokens({"-p", "a<|im_end|>b"});
    const uint64_t as_token = prompt_tokens({"-p", "a<|im_end|>b", "--special"});
    EXPECT_GT(as_text, as_token);
    EXPECT_LE(as_token, plain + 2);
    EXPECT_EQ(prompt_tokens({"-p", "x", "-sys", "a<|im_end|>b"}),
              as_text - plain + prompt_tokens({"-p", "x", "-sys", "ab"}));
}

TEST_F(HostileText, AnEndlessLineIsRefused) {
    const Finished result =
        run({"/bin/sh", "-c", std::string(LARDER_PROGRAM) + " run -m " + model_ + " -q -c 1024 --ram 60M </dev/zero"});
    expect_line(result, 2, "error: a message is longer than 24 KiB; shorten it or raise -c");
}

TEST_F(HostileText, AMessageThatIsTooLongIsRefusedAndTheNextIsAnswered) {
    Process chat({LARDER_PROGRAM, "run", "-m", model_, "-n", "1", "-q", "-c", "256"});
    chat.type(std::string(1'000'000, 'x') + "\nhello\n");
    const Finished result = chat.wait();
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("a message is longer than 6 KiB"));
    EXPECT_EQ(std::ranges::count(result.out, '\n'), 1);
}

TEST_F(HostileText, PenaltiesLookNoFurtherBackThanTheContext) {
    const Finished result = run_with(model_, {"-p", "hi", "--repeat-last-n", "500000000", "--repeat-penalty", "1.1",
                                              "-c", "256", "--stats", scratch_ / "s.json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json stats = nlohmann::json::parse(contents(scratch_ / "s.json"));
    EXPECT_LT(stats.at("peak_rss_bytes"), 200 << 20); // llama.cpp would take 2 GB
}

TEST_F(HostileText, NumbersThatAreNoneAreRefusedByTheirFlag) {
    const auto refused = [&](const std::string &flag, const std::string &value) {
        const Finished result = run_with(model_, {"-p", "hi", flag, value});
        EXPECT_EQ(result.exit_code, 2) << flag << ' ' << value;
        EXPECT_THAT(result.err, HasSubstr("error: " + flag + ":"));
        EXPECT_EQ(result.out, "");
    };
    refused("--temp", "nan");
    refused("-n", "");
    refused("-n", "010");
    refused("-s", "4294967296");
    refused("-s", "99999999999999999999");
    refused("-t", "-5");
    refused("--top-p", "1.5");
    refused("--temp", "warm");
}

} // namespace
} // namespace larder::test

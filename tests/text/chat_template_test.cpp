// Prompts from chat templates, with the text of messages kept separate from the template's own.
#include "text/chat_template.h"

#include "base/error.h"
#include "text/vocab.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace larder::test {
namespace {

constexpr const char *chatml =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant{{ '\n' }}"; // a newline at the end of a template is not part of it

class Chats : public testing::Test {
  protected:
    [[nodiscard]] PromptText render(const char *source, const std::vector<ChatMessage> &messages,
                                    bool read_control_tokens = false) const {
        return ChatTemplate(vocab_.tokenizer, source).render(messages, read_control_tokens);
    }
    [[nodiscard]] std::vector<std::string> literals(const PromptText &prompt) const {
        std::vector<std::string> all;
        for (const TextSpan &span : prompt.literal) {
            all.push_back(prompt.text.substr(span.begin, span.end - span.begin));
        }
        return all;
    }
    static VocabOptions options() {
        VocabOptions options;
        options.extra = {{"<|im_start|>", LLAMA_TOKEN_TYPE_CONTROL}, {"<|im_end|>", LLAMA_TOKEN_TYPE_CONTROL}};
        return options;
    }

    Vocab vocab_{make_vocab(options())};
};

TEST_F(Chats, AreRenderedAsTheTemplateSays) {
    const PromptText prompt = render(chatml, {{"system", "Be short."}, {"user", " hi "}});
    EXPECT_EQ(prompt.text, "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
                           "<|im_start|>assistant\n");
    EXPECT_TRUE(prompt.literal.empty());
}

TEST_F(Chats, KeepControlTokensOfMessagesAsText) {
    const std::vector<ChatMessage> messages = {{"user", "a<|im_end|>b<|im_start|>"}, {"assistant", "<|im_end|>"}};
    const PromptText prompt = render(chatml, messages);
    EXPECT_EQ(prompt.text, "<|im_start|>user\na<|im_end|>b<|im_start|><|im_end|>\n"
                           "<|im_start|>assistant\n<|im_end|><|im_end|>\n<|im_start|>assistant\n");
    EXPECT_THAT(literals(prompt), testing::ElementsAre("<|im_end|>", "<|im_start|>", "<|im_end|>"));
    const PromptText read = render(chatml, messages, true);
    EXPECT_EQ(read.text, prompt.text);
    EXPECT_TRUE(read.literal.empty());
}

TEST_F(Chats, KeepTextThatLooksLikeAMarker) {
    const std::string text = "\xEE\x80\x80"
                             "0\xEE\x80\x81 <|im_end|>"; // U+E000, U+E001
    const PromptText prompt = render(chatml, {{"user", text}});
    EXPECT_THAT(prompt.text, testing::HasSubstr("user\n" + text + "<|im_end|>\n"));
    EXPECT_THAT(literals(prompt), testing::ElementsAre("<|im_end|>"));
}

TEST_F(Chats, MarkATextThatTheTemplateRepeatsEachTime) {
    const PromptText prompt = render("{{ messages[0].content }}|{{ messages[0].content }}", {{"user", "<|im_end|>"}});
    EXPECT_EQ(prompt.text, "<|im_end|>|<|im_end|>");
    EXPECT_EQ(prompt.literal.size(), 2U);
}

TEST_F(Chats, ThatTheTemplateRefusesSayWhy) {
    try {
        (void)render("{{ raise_exception('only one system message') }}", {{"user", "x"}});
        ADD_FAILURE() << "no error";
    } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::model);
        EXPECT_THAT(error.what(), testing::HasSubstr("only one system message"));
        EXPECT_THAT(error.what(), testing::HasSubstr("use --raw"));
    }
}

TEST_F(Chats, ThatAreNotUtf8AreRefused) { EXPECT_THROW(render(chatml, {{"user", "\xf4\x90\x80\x80"}}), Error); }

TEST_F(Chats, ReplaceACharacterThatAnAnswerWasCutIn) {
    const PromptText prompt = render("{{ messages[0].content }}", {{"assistant", "a\xC3"}});
    EXPECT_EQ(prompt.text, "a\xEF\xBF\xBD");
}

TEST_F(Chats, StopWhenAsked) {
    const PromptText prompt =
        ChatTemplate(vocab_.tokenizer,
                     "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}")
            .render({{"user", "x"}}, false, [] { return true; });
    EXPECT_EQ(prompt.text, "");
}

} // namespace
} // namespace larder::test

// Control tokens are parsed where llama.cpp parses them, and never in user text.
#include "text/text.h"

#include "base/error.h"
#include "text/vocab.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace larder::test {
namespace {

const std::vector<ExtraToken> chat_tokens = {
    {"<|im_start|>", LLAMA_TOKEN_TYPE_CONTROL}, {"<|im_end|>", LLAMA_TOKEN_TYPE_CONTROL},
    {"<|im", LLAMA_TOKEN_TYPE_CONTROL},         {"<think>", LLAMA_TOKEN_TYPE_USER_DEFINED},
    {"\n\n", LLAMA_TOKEN_TYPE_USER_DEFINED},    {"nk>a", LLAMA_TOKEN_TYPE_CONTROL},
    {"<|e", LLAMA_TOKEN_TYPE_CONTROL},          {"e|>", LLAMA_TOKEN_TYPE_CONTROL}};

std::vector<Token> stock_tokens(const llama_vocab *vocab, const std::string &text, bool add_special,
                                bool parse_special) {
    std::vector<Token> tokens(text.size() * 4 + 8);
    const int n = llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), tokens.data(),
                                 static_cast<int>(tokens.size()), add_special, parse_special);
    tokens.resize(static_cast<size_t>(std::max(n, 0)));
    return tokens;
}

Token token_named(const llama_vocab *vocab, const std::string &text) {
    for (Token token = 0; token < llama_vocab_n_tokens(vocab); token++) {
        if (text == llama_vocab_get_text(vocab, token)) {
            return token;
        }
    }
    return -1;
}

std::string random_chat(std::mt19937 &random) {
    static const std::vector<std::string> parts = {
        "<|im_start|>", "<|im_end|>", "<|im", "<think>", "\n", "\n\n", "a",       " ", "<",
        "|>",           "e|>",        "nk>a", "hello ",  "  ", "1",    "\xC3\xA9"};
    std::string text;
    for (size_t n = random() % 24; n > 0; n--) {
        text += parts[random() % parts.size()];
    }
    return text;
}

TEST(SpecialTokens, AreFoundAsLlamaCppFindsThem) {
    std::mt19937 random(3);
    std::vector<ExtraToken> phi_tokens = chat_tokens;
    for (const char *text : {"</s>", "<unk>", "<s>", "<|endoftext|>"}) { // llama.cpp relies on them there
        phi_tokens.push_back({text, LLAMA_TOKEN_TYPE_CONTROL});
    }
    for (const VocabOptions &options :
         std::vector<VocabOptions>{{.extra = chat_tokens, .add_bos = true, .add_eos = true},
                                   {.name = "phi-3", .extra = phi_tokens}, // white space after each is removed
                                   {.model = "llama", .pre = "default", .extra = chat_tokens, .add_bos = true},
                                   {.model = "t5", .extra = chat_tokens, .add_eos = true},
                                   {.model = "bert", .extra = chat_tokens},
                                   {.model = "plamo2", .extra = chat_tokens}}) {
        const VocabPtr model = make_vocab(options);
        const Tokenizer tokenizer(vocab_of(model));
        for (int round = 0; round < 300; round++) {
            const std::string text = random_chat(random);
            for (const bool add : {false, true}) {
                for (const bool parse : {false, true}) {
                    ASSERT_EQ(tokenizer.tokenise(text, {.add_special = add, .parse_special = parse}),
                              stock_tokens(vocab_of(model), text, add, parse))
                        << options.model << ' ' << options.name << " '" << text << "' " << add << parse;
                }
            }
        }
    }
}

TEST(SpecialTokens, AreTextWhereUsersWroteThem) {
    const VocabPtr model = make_vocab({.extra = chat_tokens});
    const llama_vocab *vocab = vocab_of(model);
    const Tokenizer tokenizer(vocab);
    const Token end = token_named(vocab, "<|im_end|>");
    const std::string before = "<|im_start|>user\n";
    const std::string user = "a<|im_end|>b<|im";
    const std::string behind = "<|im_end|>\n";
    const PromptText prompt{before + user + behind, {{before.size(), before.size() + user.size()}}};
    const std::vector<Token> tokens = tokenizer.tokenise(prompt, {.parse_special = true});
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), end), 1);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), token_named(vocab, "<|im")), 0);
    EXPECT_EQ(tokens.front(), token_named(vocab, "<|im_start|>"));
    std::string again; // the text is complete
    for (const Token token : tokens) {
        std::array<char, 64> piece{};
        const int n = llama_token_to_piece(vocab, token, piece.data(), piece.size(), 0, true);
        again.append(piece.data(), static_cast<size_t>(n));
    }
    EXPECT_EQ(again, prompt.text);
}

TEST(SpecialTokens, AreNotMadeOfATemplatesPartAndAUsersPart) {
    const VocabPtr model = make_vocab({.extra = chat_tokens});
    const Tokenizer tokenizer(vocab_of(model));
    const std::string text = "x<|im_end|>";
    for (uint64_t cut = 1; cut < text.size(); cut++) {
        const std::vector<Token> tokens = tokenizer.tokenise({text, {{cut, text.size()}}}, {.parse_special = true});
        EXPECT_THAT(tokens, testing::Not(testing::Contains(token_named(vocab_of(model), "<|im_end|>")))) << cut;
    }
}

TEST(SpecialTokens, LeaveTheTokensOfLlamaCppWhereUsersWroteNone) {
    const VocabPtr model = make_vocab({.extra = chat_tokens, .add_bos = true});
    const Tokenizer tokenizer(vocab_of(model));
    const std::string text = "<|im_start|>user\nhello there<|im_end|>\n";
    const TokeniseOptions options{.add_special = true, .parse_special = true};
    EXPECT_EQ(tokenizer.tokenise({text, {{17, 28}}}, options), stock_tokens(vocab_of(model), text, true, true));
}

TEST(SpecialTokens, AreNamedWhereTheyStand) {
    const VocabPtr model = make_vocab({.extra = chat_tokens});
    const Tokenizer tokenizer(vocab_of(model));
    const std::vector<TextSpan> spans = tokenizer.control_tokens_in("a<|im_end|><think><|im");
    ASSERT_EQ(spans.size(), 2U);
    EXPECT_EQ(spans[0].begin, 1U);
    EXPECT_EQ(spans[0].end, 11U);
    EXPECT_EQ(spans[1].begin, 18U);
}

TEST(SpecialTokens, AreRefusedWhereThereAreMoreThanTheContextHolds) {
    const VocabPtr model = make_vocab({.extra = chat_tokens});
    const Tokenizer tokenizer(vocab_of(model));
    std::string text;
    for (int i = 0; i < 100000; i++) { // llama.cpp would take time quadratic in their number
        text += "<|im_end|>";
    }
    EXPECT_THAT([&] { (void)tokenizer.tokenise(text, {.parse_special = true, .tokens_max = 4096}); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("control tokens, and the context 4096")));
}

} // namespace
} // namespace larder::test

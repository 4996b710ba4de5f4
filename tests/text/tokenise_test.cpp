// Tokenizer gives llama.cpp's tokens, on any stack, in bounded memory and time.
#include "text/text.h"

#include "base/error.h"
#include "text/counted_heap.h"
#include "text/own_stack.h"
#include "text/vocab.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pthread.h>

#include <functional>
#include <random>
#include <string_view>

namespace larder::test {
namespace {

constexpr uint64_t huge_stack = 1 * GiB;

std::string repeated(std::string_view unit, size_t bytes) {
    std::string text;
    while (text.size() < bytes) {
        text += unit;
    }
    text.resize(bytes);
    return text;
}

// llama.cpp's tokens, on a sufficient stack.
std::vector<Token> stock_tokens(const llama_vocab *vocab, const std::string &text, bool add_special,
                                bool parse_special) {
    std::vector<Token> tokens(text.size() * 4 + 8);
    run_on_own_stack(huge_stack, [&] {
        const int n = llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), tokens.data(),
                                     static_cast<int>(tokens.size()), add_special, parse_special);
        ASSERT_GE(n, 0);
        tokens.resize(static_cast<size_t>(n));
    });
    return tokens;
}

// Threads of a server may have a stack this small.
void on_small_stack(const std::function<void()> &work) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * KiB);
    pthread_t thread{};
    ASSERT_EQ(pthread_create(
                  &thread, &attributes,
                  [](void *function) -> void * {
                      (*static_cast<const std::function<void()> *>(function))();
                      return nullptr;
                  },
                  const_cast<std::function<void()> *>(&work)),
              0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
}

// With this pre-tokenizer, llama.cpp aborts on two spaces in a row.
bool takes_no_space(const std::string &pre) { return pre == "whitespace"; }

testing::Matcher<const Error &> says(const std::string &part) {
    return testing::Property(&Error::what, testing::HasSubstr(part));
}

TEST(Tokenise, GivesTheTokensOfLlamaCppOnASmallStackWithEveryPreTokenizer) {
    for (const std::string &pre : pre_tokenizers()) {
        const Tokenizer &tokenizer = vocab_with(pre).tokenizer;
        for (const std::string_view unit :
             {"-", "a", "A", " ", "\n", "\xC3\xA9", "a1 ", "it's \xE4\xB8\xAD 42.\r\n", "\xFF"}) {
            if (takes_no_space(pre) && unit.find_first_of(" \n") != std::string_view::npos) {
                continue;
            }
            const std::string text = repeated(unit, 4000);
            std::vector<Token> tokens;
            on_small_stack([&] { tokens = tokenizer.tokenise(text, {}); });
            EXPECT_EQ(tokens, stock_tokens(tokenizer.vocab(), text, false, false)) << pre << " '" << unit << "'";
        }
    }
}

TEST(Tokenise, GivesTheTokensOfLlamaCppWithEveryKindOfVocabulary) {
    for (const char *kind : {"llama", "t5", "bert", "plamo2"}) {
        const VocabPtr model = make_vocab({.model = kind});
        const Tokenizer tokenizer(vocab_of(model));
        for (const std::string_view unit : {"-", "a", " ", "hello the\n", "\xC3\xA9", "\xFF"}) {
            const std::string text = repeated(unit, 4000);
            std::vector<Token> tokens;
            on_small_stack([&] { tokens = tokenizer.tokenise(text, {}); });
            EXPECT_EQ(tokens, stock_tokens(vocab_of(model), text, false, false)) << kind << " '" << unit << "'";
        }
    }
}

std::string random_text(std::mt19937 &random, size_t bytes) {
    static const std::vector<std::string> units = {"a",
                                                   "A",
                                                   "1",
                                                   " ",
                                                   "\n",
                                                   "\r",
                                                   "\t",
                                                   "-",
                                                   "'",
                                                   "/",
                                                   ".",
                                                   "s",
                                                   "(",
                                                   "$",
                                                   "\xC3\xA9",
                                                   "\xE4\xB8\xAD",
                                                   "\xCC\x81",
                                                   "\xFF",
                                                   "\xE0\xB8\x81",
                                                   "the "};
    std::string text;
    while (text.size() < bytes) {
        const std::string &unit = units[random() % units.size()];
        for (size_t n = random() % 8 == 0 ? 1 + random() % 700 : 1; n > 0; n--) {
            text += unit;
        }
    }
    return text;
}

TEST(Tokenise, TakesNoMoreMemoryThanItSays) {
    std::mt19937 random(7);
    for (const std::string &pre : pre_tokenizers()) {
        const Tokenizer &tokenizer = vocab_with(pre).tokenizer;
        const llama_vocab *vocab = tokenizer.vocab();
        std::vector<std::string> texts = {repeated("-", 8193),       repeated("a", 8193),
                                          repeated("\xFF", 8193),    repeated("a b cd ", 8193),
                                          random_text(random, 6000), random_text(random, 6000)};
        for (const std::string &text : texts) {
            if (takes_no_space(pre) && text.find_first_of(" \n\t\r") != std::string::npos) {
                continue;
            }
            const CountedHeap heap;
            const uint64_t stack = stack_touched_by(64 * MiB, [&] {
                const int n =
                    -llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), nullptr, 0, false, false);
                EXPECT_GE(n, 0);
            });
            EXPECT_LE(heap.peak_bytes() + stack, tokenizer.bytes_needed(text)) << pre << " " << text.substr(0, 40);
        }
    }
}

TEST(Tokenise, NeedsNoMoreForProseThanThePlanHolds) {
    for (const char *pre : {"gpt-2", "gpt-4o", "tekken", "deepseek-v3"}) {
        const Tokenizer &tokenizer = vocab_with(pre).tokenizer;
        const std::string text = repeated("The quick brown fox jumps over the lazy dog, and runs.\n\n", 20000);
        EXPECT_LE(tokenizer.bytes_needed(text), tokenise_bytes_max(text.size()) + 64 * KiB) << pre;
    }
}

TEST(Tokenise, RefusesATextThatNeedsMoreThanItMay) {
    const Tokenizer &tokenizer = vocab_with("gpt-4o").tokenizer;
    const std::string text = repeated("-", 100000);
    TokeniseOptions options;
    options.bytes_max = tokenise_bytes_max(text.size());
    try {
        (void)tokenizer.tokenise(text, options);
        FAIL() << "not refused";
    } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::usage);
        EXPECT_THAT(error, says("a run of 100000 characters without a break"));
    }
    EXPECT_EQ(tokenizer.tokenise("a-a", options), stock_tokens(tokenizer.vocab(), "a-a", false, false));
}

TEST(Tokenise, RefusesWhatWouldTakeMinutes) {
    EXPECT_THAT([&] { (void)vocab_with("superbpe").tokenizer.tokenise(repeated("1", 30000), {}); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("a run of 30000 digits")));
    const VocabPtr words = make_vocab({.model = "llama"});
    EXPECT_THAT(
        [&] { (void)Tokenizer(vocab_of(words)).tokenise(repeated("\xE4\xB8\xAD", 900000), {}); },
        testing::ThrowsMessage<Error>(testing::HasSubstr("300000 characters that the vocabulary does not have")));
}

TEST(Tokenise, RefusesWhatLlamaCppDoesNotSurvive) {
    EXPECT_THAT([&] { (void)vocab_with("whitespace").tokenizer.tokenise("a  b", {}); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("takes no white space")));
    const VocabPtr no_bos = make_vocab({.model = "t5", .add_bos = true, .bos = -1});
    EXPECT_THAT([&] { const Tokenizer tokenizer(vocab_of(no_bos)); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("tokenizer.ggml.bos_token_id")));
}

} // namespace
} // namespace larder::test

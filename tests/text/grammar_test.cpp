// Grammars are tried before llama.cpp samples with them.
#include "text/grammar.h"

#include "base/error.h"
#include "text/vocab.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace larder::test {
namespace {

std::string refusal_of(const std::string &grammar) {
    try {
        check_grammar(grammar);
    } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::usage);
        return error.message();
    }
    return {};
}

TEST(Grammars, OfEverydayUseAreAccepted) {
    for (const char *grammar :
         {"root ::= \"yes\" | \"no\"", "root ::= [0-9]{1,3} (\",\" [0-9]{3})*", "root ::= [^\\n]+ \".\"",
          "root ::= object\nws ::= [ \\t\\n]*\nobject ::= \"{\" ws (pair (\",\" ws pair)*)? \"}\" ws\n"
          "pair ::= string \":\" ws value\nstring ::= \"\\\"\" [^\"]* \"\\\"\" ws\n"
          "value ::= object | string | [0-9]+ ws | \"[\" ws (value (\",\" ws value)*)? \"]\" ws | \"true\" ws"}) {
        EXPECT_EQ(refusal_of(grammar), "") << grammar;
    }
}

TEST(Grammars, ThatAreTooLongAreRefused) {
    EXPECT_THAT(refusal_of("root ::= \"" + std::string(grammar_bytes_max, 'a') + "\""),
                testing::HasSubstr("the grammar has 128.01 KiB, more than 128 KiB"));
}

TEST(Grammars, ThatReferToTokensAreLeftToTheSampler) { EXPECT_EQ(refusal_of("root ::= <think> \"a\""), ""); }

TEST(Grammars, ThatHaveAFaultAreRefusedWithIt) {
    EXPECT_THAT(refusal_of("root = x"), testing::HasSubstr("cannot be read: expecting ::= at = x"));
    EXPECT_THAT(refusal_of("root ::= undefined"), testing::HasSubstr("cannot be read"));
    EXPECT_THAT(refusal_of(""), testing::HasSubstr("no rules"));
}

// The number of stacks grows with the text so far.
TEST(Grammars, ThatComeToManyStacksLaterAreRefused) {
    std::string grammar = "root ::= \"x\" (\"a\"";
    for (int i = 0; i < 700; i++) {
        grammar += fmt::format(" | \"{}\"", i);
    }
    grammar += ")";
    EXPECT_THAT(refusal_of(grammar), testing::HasSubstr("in more than 512 ways at once"));
}

// Only 100 stacks, but each character of a token multiplies the paths.
TEST(Grammars, ThatHaveManyPathsForOneTokenAreRefused) {
    std::string grammar = "root ::= \"x\" ";
    for (int i = 0; i < 100; i++) {
        grammar += "\"a\"? ";
    }
    EXPECT_THAT(refusal_of(grammar), testing::HasSubstr("has more than 1000000 paths for one token"));
    EXPECT_EQ(refusal_of("root ::= \"a\"{0,100} \"b\""), "");
}

// Nobody tries the first 300 characters, and a sampler would not end after them.
TEST(Grammars, AreWatchedWhereNobodyTriedThem) {
    std::string grammar = "root ::= \"" + std::string(300, 'x') + "\" ";
    for (int i = 0; i < 1000; i++) {
        grammar += "\"a\"? ";
    }
    ASSERT_EQ(refusal_of(grammar), "");
    const Vocab &vocab = vocab_with("gpt-2");
    const std::vector<Token> x = vocab.tokenizer.tokenise("x", {});
    ASSERT_EQ(x.size(), 1U);
    GrammarWatch watch(vocab.tokenizer.vocab(), grammar);
    for (int time = 0; time < 2; time++) {
        int accepted = 0;
        try {
            for (; accepted < 300; accepted++) {
                watch.accept(x[0]);
            }
        } catch (const Error &error) {
            EXPECT_EQ(error.kind(), ErrorKind::usage);
            EXPECT_THAT(error.message(), testing::HasSubstr("after the text so far, the grammar has more than"));
        }
        EXPECT_GT(accepted, 280);
        EXPECT_LT(accepted, 300);
        watch.reset();
    }
}

TEST(Grammars, StopBeingTriedOutWhenAsked) {
    EXPECT_NO_THROW(check_grammar("root ::= " + std::string(20000, '('), [] { return true; }));
}

} // namespace
} // namespace larder::test

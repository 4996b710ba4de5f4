// Grammars are tried before llama.cpp samples with them.
#include "text/grammar.h"

#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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
    std::string grammar = "root ::= \"x\" ";
    for (int i = 0; i < 700; i++) {
        grammar += "\"a\"? ";
    }
    EXPECT_THAT(refusal_of(grammar), testing::HasSubstr("in more than 512 ways at once"));
}

TEST(Grammars, StopBeingTriedOutWhenAsked) {
    EXPECT_NO_THROW(check_grammar("root ::= " + std::string(20000, '('), [] { return true; }));
}

} // namespace
} // namespace larder::test

// Sessions: reuse of a cached prefix, stops, the end of the context, sampling.
#include "support/model_fixture.h"

namespace larder::test {
namespace {

class Sessions : public testing::Test {
  protected:
    Sessions() : engine_(attention_model().open()), prompt_(some_tokens(12, engine_->n_vocab())) {}

    // Logits after `tokens` in a new session.
    static std::vector<float> fresh_logits(OpenModel &engine, const std::vector<Token> &tokens) {
        Session session(engine, greedy());
        EXPECT_TRUE(session.prefill(tokens));
        return logits_of(session);
    }

    std::unique_ptr<OpenModel> engine_;
    std::vector<Token> prompt_;
};

TEST_F(Sessions, EvaluateOnlyWhatIsNewOfAPromptWhereAttentionRemembers) {
    Session session(*engine_, greedy());
    ASSERT_TRUE(session.prefill(prompt_));
    EXPECT_EQ(engine_->figures().prompt_tokens, 12U);
    std::vector<Token> other = prompt_;
    other[9] = other[9] + 1;
    ASSERT_TRUE(session.prefill(other));
    EXPECT_EQ(engine_->figures().prompt_tokens, 12U + 3U);
    EXPECT_EQ(session.n_token(), 12U);
    const std::vector<float> logits = logits_of(session);
    EXPECT_TRUE(same_bits(logits, fresh_logits(*attention_model().open_stock(), other)));
    EXPECT_FALSE(same_bits(logits, fresh_logits(*attention_model().open_stock(), prompt_)));
}

TEST_F(Sessions, EvaluateEverythingAgainWhereTheModelIsRecurrent) {
    engine_.reset(); // only one budget per process
    const auto engine = recurrent_model().open();
    Session session(*engine, greedy());
    ASSERT_TRUE(session.prefill(prompt_));
    std::vector<Token> other = prompt_;
    other.back() = other.back() + 1;
    const uint64_t before = engine->figures().prompt_tokens;
    ASSERT_TRUE(session.prefill(other));
    EXPECT_EQ(engine->figures().prompt_tokens - before, 12U);
    EXPECT_TRUE(same_bits(logits_of(session), fresh_logits(*recurrent_model().open_stock(), other)));
}

TEST_F(Sessions, OfARecurrentModelStillGoOnFromWhatTheyHave) {
    engine_.reset(); // only one budget per process
    const auto engine = recurrent_model().open();
    Session session(*engine, greedy());
    ASSERT_TRUE(session.prefill(std::span(prompt_).first(8)));
    ASSERT_TRUE(session.prefill(prompt_));
    EXPECT_EQ(engine->figures().prompt_tokens, 12U);
    EXPECT_TRUE(same_bits(logits_of(session), fresh_logits(*recurrent_model().open_stock(), prompt_)));
}

TEST_F(Sessions, EvaluateTheLastTokenOfAPromptThatIsAllThere) {
    Session session(*engine_, greedy());
    ASSERT_TRUE(session.prefill(prompt_));
    const std::vector<float> first = logits_of(session);
    ASSERT_TRUE(session.prefill(prompt_));
    EXPECT_EQ(engine_->figures().prompt_tokens, 12U + 1U);
    EXPECT_TRUE(same_bits(first, logits_of(session)));
    ASSERT_TRUE(session.prefill(std::span(prompt_).first(5))) << "a shorter prompt cuts the context";
    EXPECT_EQ(session.n_token(), 5U);
}

TEST_F(Sessions, GiveTheSameLogitsByDecodeAsByPrefill) {
    Session session(*engine_, greedy());
    ASSERT_TRUE(session.prefill(std::span(prompt_).first(1)));
    for (const Token token : std::span(prompt_).subspan(1)) {
        ASSERT_TRUE(session.decode(token));
    }
    EXPECT_TRUE(same_bits(logits_of(session), fresh_logits(*attention_model().open_stock(), prompt_)));
}

TEST_F(Sessions, ThatWereStoppedKeepWhatWasComputedAndWorkAgain) {
    const std::vector<float> expected = fresh_logits(*engine_, prompt_);
    Session session(*engine_, greedy());
    ASSERT_TRUE(session.prefill(std::span(prompt_).first(4)));
    engine_->request_stop();
    EXPECT_FALSE(session.decode(prompt_[4]));
    EXPECT_EQ(session.n_token(), 4U);
    EXPECT_FALSE(session.prefill(prompt_)) << "the stop holds until it is cleared";
    EXPECT_TRUE(engine_->stop_requested());

    engine_->clear_stop();
    const uint64_t before = engine_->figures().prompt_tokens;
    ASSERT_TRUE(session.prefill(prompt_));
    EXPECT_EQ(engine_->figures().prompt_tokens - before, 8U) << "the first four are not computed again";
    EXPECT_EQ(session.n_token(), 12U);
    EXPECT_TRUE(same_bits(expected, logits_of(session)));
}

TEST_F(Sessions, StopInTheMiddleOfAPrompt) {
    Session session(*engine_, greedy());
    uint32_t batches = 0;
    session.on_batch = [&](uint32_t first, uint32_t count) {
        EXPECT_EQ(first, 0U);
        EXPECT_EQ(count, 8U);
        batches++;
        engine_->request_stop();
    };
    EXPECT_FALSE(session.prefill(prompt_));
    EXPECT_EQ(batches, 1U);
    EXPECT_EQ(session.n_token(), 8U) << "the first batch stays";
}

TEST_F(Sessions, FillTheContextToTheLastTokenAndNoFurther) {
    const std::vector<Token> full = some_tokens(engine_->ctx_tokens(), engine_->n_vocab());
    Session session(*engine_, greedy());
    ASSERT_TRUE(session.prefill(std::span(full).first(full.size() - 1)));
    ASSERT_TRUE(session.decode(full.back()));
    EXPECT_EQ(session.n_token(), engine_->ctx_tokens());
    EXPECT_EQ(error_of([&] { session.decode(1); }).kind(), ErrorKind::usage);
    EXPECT_EQ(session.n_token(), engine_->ctx_tokens()) << "what is there stays";
    EXPECT_TRUE(session.prefill(full)) << "a prompt may be as long as the context";
}

TEST_F(Sessions, RefuseAPromptLongerThanTheContextAndAnEmptyOne) {
    Session session(*engine_, greedy());
    ASSERT_TRUE(session.prefill(prompt_));
    const Error error = error_of([&] { session.prefill(some_tokens(engine_->ctx_tokens() + 1, engine_->n_vocab())); });
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(error.message().find("257"), std::string::npos) << error.what();
    EXPECT_EQ(error_of([&] { session.prefill({}); }).kind(), ErrorKind::usage);
    EXPECT_EQ(session.n_token(), 12U);
    EXPECT_TRUE(session.decode(1));
}

TEST_F(Sessions, ComputeTheSameAgainAfterATokenWasTakenBackAndReadNothingForIt) {
    Session session(*engine_, greedy());
    ASSERT_TRUE(session.prefill(prompt_));
    const Token next = session.sample();
    ASSERT_TRUE(session.decode(next));
    const std::vector<float> logits = logits_of(session);
    const StoreStats before = engine_->figures().store;
    ASSERT_TRUE(session.rewind(1));
    EXPECT_EQ(session.n_token(), 12U);
    ASSERT_TRUE(session.decode(next));
    EXPECT_EQ(session.n_token(), 13U);
    EXPECT_TRUE(same_bits(logits, logits_of(session)));
    EXPECT_EQ(engine_->figures().store.bytes_read, before.bytes_read);
    EXPECT_EQ(engine_->figures().store.expert_misses, before.expert_misses);
    EXPECT_GT(engine_->figures().store.expert_hits, before.expert_hits);
}

TEST_F(Sessions, GoOnDifferentlyAfterTokensWereTakenBack) {
    Session session(*engine_, greedy());
    ASSERT_TRUE(session.prefill(prompt_));
    ASSERT_TRUE(session.rewind(3));
    EXPECT_EQ(session.n_token(), 9U);
    std::vector<Token> other(prompt_.begin(), prompt_.begin() + 9);
    other.push_back(prompt_[9] + 1);
    ASSERT_TRUE(session.decode(other.back()));
    EXPECT_TRUE(same_bits(logits_of(session), fresh_logits(*attention_model().open_stock(), other)));
}

TEST_F(Sessions, TakeBackNothingWhereNothingWouldBeLeftOrTheModelIsRecurrent) {
    {
        Session session(*engine_, greedy());
        ASSERT_TRUE(session.prefill(prompt_));
        EXPECT_FALSE(session.rewind(12));
        EXPECT_EQ(session.n_token(), 12U);
    }
    engine_.reset(); // only one budget per process
    const auto recurrent = recurrent_model().open();
    Session unforgetting(*recurrent, greedy());
    ASSERT_TRUE(unforgetting.prefill(std::span(prompt_).first(11)));
    EXPECT_FALSE(unforgetting.rewind(1));
    EXPECT_EQ(unforgetting.n_token(), 11U);
    ASSERT_TRUE(unforgetting.decode(prompt_[11])) << "it goes on as if nothing had been asked";
    EXPECT_TRUE(same_bits(logits_of(unforgetting), fresh_logits(*recurrent_model().open_stock(), prompt_)));
}

// --- sampling ---

std::vector<Token> sampled(OpenModel &engine, const std::vector<Token> &prompt, const SamplingOptions &sampling) {
    Session session(engine, sampling);
    EXPECT_TRUE(session.prefill(prompt));
    std::vector<Token> tokens;
    for (int i = 0; i < 12; i++) {
        tokens.push_back(session.sample());
        EXPECT_TRUE(session.decode(tokens.back()));
    }
    return tokens;
}

TEST_F(Sessions, SampleTheHighestLogitAtTemperatureZero) {
    Session session(*engine_, greedy());
    ASSERT_TRUE(session.prefill(prompt_));
    for (int i = 0; i < 12; i++) {
        const Token token = session.sample();
        ASSERT_EQ(token, highest(logits_of(session))) << "token " << i;
        ASSERT_TRUE(session.decode(token));
    }
}

TEST_F(Sessions, SampleTheSameTokensFromTheSameSeedAndOthersFromAnother) {
    SamplingOptions sampling;
    sampling.temperature = 2;
    sampling.seed = 11;
    const std::vector<Token> tokens = sampled(*engine_, prompt_, sampling);
    EXPECT_EQ(tokens, sampled(*engine_, prompt_, sampling));
    sampling.seed = 12;
    EXPECT_NE(tokens, sampled(*engine_, prompt_, sampling));
}

TEST_F(Sessions, SampleOnlyWhatTheGrammarAllows) {
    SamplingOptions sampling = greedy();
    sampling.grammar = "root ::= [ab]+";
    std::string text;
    for (const Token token : sampled(*engine_, prompt_, sampling)) {
        text += engine_->piece(token);
    }
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(text.find_first_not_of("ab"), std::string::npos) << text;
}

TEST_F(Sessions, SayThatAFinishedGrammarLeavesNoTokenWhenItsEndIsIgnored) {
    SamplingOptions sampling = greedy();
    sampling.grammar = "root ::= \"a\"";
    sampling.ignore_eos = true;
    EXPECT_EQ(error_of([&] { sampled(*engine_, prompt_, sampling); }).kind(), ErrorKind::usage);
    sampling.ignore_eos = false;
    Session session(*engine_, sampling);
    ASSERT_TRUE(session.prefill(prompt_));
    EXPECT_EQ(engine_->piece(session.sample()), "a");
    EXPECT_TRUE(engine_->is_end_of_generation(session.sample()));
}

TEST_F(Sessions, RefuseAGrammarThatCannotBeRead) {
    SamplingOptions sampling;
    sampling.grammar = "root ::= (";
    EXPECT_EQ(error_of([&] { const Session session(*engine_, sampling); }).kind(), ErrorKind::usage);
    const Session session(*engine_, greedy()); // the engine can make another session
    EXPECT_EQ(session.n_token(), 0U);
}

TEST_F(Sessions, NeverSampleAnEndOfTextThatIsToBeIgnored) {
    SamplingOptions sampling; // a temperature at which all tokens are about equally likely
    sampling.temperature = 1e6F;
    sampling.top_k = 0;
    sampling.top_p = 1;
    sampling.min_p = 0;
    sampling.seed = 3;
    for (const bool ignored : {false, true}) {
        sampling.ignore_eos = ignored;
        Session session(*engine_, sampling);
        ASSERT_TRUE(session.prefill(prompt_));
        int ends = 0;
        for (uint32_t i = 0; i < 8 * engine_->n_vocab(); i++) {
            ends += engine_->is_end_of_generation(session.sample()) ? 1 : 0;
        }
        EXPECT_EQ(ends == 0, ignored) << ends;
    }
}

} // namespace
} // namespace larder::test

// Routing that a RouteRecorder records.
#include "support/model_fixture.h"

#include "lab/recorder/recorder.h"
#include "lab/trace/trace.h"

#include <filesystem>
#include <fstream>
#include <set>

namespace larder::test {
namespace {

class Traces : public testing::Test {
  protected:
    // Evaluates a prompt in ubatches of 8, decodes `n_decode` tokens, and returns the recorded trace.
    RoutingTrace record(size_t n_prompt, size_t n_decode) {
        TestOptions options = model_.options();
        RouteRecorder recorder(path());
        options.model.observer = &recorder;
        options.model.context.ubatch_tokens = 8;
        const std::unique_ptr<OpenModel> engine = open_as(options);
        Session session(*engine, greedy());
        session.prefill(some_tokens(n_prompt, engine->n_vocab()));
        for (size_t i = 0; i < n_decode; i++) {
            session.decode(session.sample());
        }
        recorder.close();
        return read_trace(path());
    }
    [[nodiscard]] std::string path() const { return model_.path() + ".trace"; }

    SmallModel model_{"--arch qwen3moe --quant q8_0"};
};

// The experts of one token and layer, without absent ones.
std::set<int32_t> experts_of(const RoutingTrace &trace, size_t token, uint32_t layer) {
    const auto first = trace.tokens[token].experts.begin() + static_cast<std::ptrdiff_t>(layer * trace.top_k);
    std::set<int32_t> experts(first, first + trace.top_k);
    experts.erase(-1);
    return experts;
}

TEST_F(Traces, HoldEachTokenOfPromptAndAnswerOnce) {
    const RoutingTrace trace = record(21, 3);
    ASSERT_EQ(trace.tokens.size(), 24U);
    EXPECT_EQ(trace.architecture, "qwen3moe");
    for (size_t token = 0; token < trace.tokens.size(); token++) {
        EXPECT_EQ(trace.tokens[token].phase, token < 21 ? TracePhase::prefill : TracePhase::decode);
        for (uint32_t layer = 0; layer < trace.n_layer; layer++) {
            // llama.cpp evaluates the last layer only for tokens whose logits are needed.
            const bool evaluated = layer + 1 < trace.n_layer || token >= 20;
            EXPECT_EQ(experts_of(trace, token, layer).size(), evaluated ? trace.top_k : 0U) << token << " " << layer;
        }
    }
}

TEST_F(Traces, AgreeBetweenPrefillAndDecode) {
    const RoutingTrace whole = record(12, 0);
    TestOptions options = model_.options();
    RouteRecorder recorder(path());
    options.model.observer = &recorder;
    const std::unique_ptr<OpenModel> engine = open_as(options);
    Session session(*engine, greedy());
    const std::vector<Token> tokens = some_tokens(12, engine->n_vocab());
    session.prefill({tokens.data(), 1});
    for (size_t i = 1; i < tokens.size(); i++) {
        session.decode(tokens[i]);
    }
    recorder.close();
    const RoutingTrace single = read_trace(path());
    ASSERT_EQ(single.tokens.size(), whole.tokens.size());
    for (size_t token = 0; token < 12; token++) {
        EXPECT_EQ(experts_of(single, token, 0), experts_of(whole, token, 0)) << token;
    }
}

TEST_F(Traces, LeaveOutABatchThatWasStopped) {
    TestOptions options = model_.options();
    RouteRecorder recorder(path());
    options.model.observer = &recorder;
    const std::unique_ptr<OpenModel> engine = open_as(options);
    Session session(*engine, greedy());
    engine->request_stop();
    EXPECT_FALSE(session.prefill(some_tokens(5, engine->n_vocab())));
    engine->clear_stop();
    session.prefill(some_tokens(2, engine->n_vocab()));
    recorder.close();
    EXPECT_EQ(read_trace(path()).tokens.size(), 2U);
}

TEST(TraceErrors, NameWhatCannotBeWrittenAndModelsWithoutRoutes) {
    const SmallModel moe("--arch qwen3moe --quant q8_0");
    TestOptions options = moe.options();
    RouteRecorder nowhere("/nowhere/trace");
    options.model.observer = &nowhere;
    EXPECT_NE(std::string(error_of([&] { open_as(options); }).what()).find("/nowhere/trace"), std::string::npos);

    const SmallModel dense("--arch qwen3 --quant q8_0");
    options = dense.options();
    RouteRecorder of_dense(dense.path() + ".trace");
    options.model.observer = &of_dense;
    EXPECT_NE(std::string(error_of([&] { open_as(options); }).what()).find("dense"), std::string::npos);
}

} // namespace
} // namespace larder::test

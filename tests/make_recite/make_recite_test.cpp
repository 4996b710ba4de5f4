// Models written by larder-make-recite, run and routed by llama.cpp.
#include "lab/trace/trace.h"
#include "make_model/stock_model.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <numeric>

namespace larder::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A temporary folder for each test, with its traces and models.
class MakeRecite : public testing::Test {
  protected:
    // Runs the tool and returns its exit code. printed() has its output.
    int run(const std::string &arguments) {
        const std::string command =
            std::string(LARDER_MAKE_RECITE) + " " + arguments + " >" + (folder_ / "printed") + " 2>&1";
        return WEXITSTATUS(std::system(command.c_str()));
    }
    [[nodiscard]] std::string printed() const { return contents(folder_ / "printed"); }

    std::string make(const std::string &arguments) {
        const std::string path = folder_ / "model.gguf";
        EXPECT_EQ(run(arguments + " --out " + path), 0) << printed();
        return path;
    }

    std::string write(const RoutingTrace &trace) {
        const std::string path = folder_ / "trace.jsonl";
        TraceWriter writer(path, trace.architecture, trace.n_expert, trace.top_k, trace.layers);
        for (const TraceToken &token : trace.tokens) {
            writer.write(token);
        }
        writer.close();
        return path;
    }

    Scratch folder_;
};

std::vector<llama_token> from_to(llama_token first, llama_token end) {
    std::vector<llama_token> tokens(static_cast<size_t>(end - first));
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
}

std::set<int32_t> recorded(const RoutingTrace &trace, size_t token, size_t layer) {
    const auto first = trace.tokens[token].experts.begin() + static_cast<std::ptrdiff_t>(layer * trace.top_k);
    return {first, first + trace.top_k};
}

// Expects that the model routed tokens first, first + 1, … of the trace as recorded.
void expect_routing(const StockModel &model, const RoutingTrace &trace, size_t first, size_t count) {
    ASSERT_EQ(model.routing().size(), trace.n_layer);
    for (size_t layer = 0; layer < trace.n_layer; layer++) {
        const auto &chosen = model.routing().at("ffn_moe_topk-" + std::to_string(layer));
        ASSERT_EQ(chosen.size(), count);
        for (size_t i = 0; i < count; i++) {
            ASSERT_EQ(chosen[i], recorded(trace, first + i, layer)) << "token " << first + i << ", layer " << layer;
        }
    }
}

constexpr llama_token walk = 100;

RoutingTrace trace_for(uint32_t layers) {
    return synthesise_trace({.n_layer = layers,
                             .n_expert = 16,
                             .top_k = 4,
                             .n_token = static_cast<uint32_t>(walk),
                             .skew = 1.0,
                             .reuse = 0.3,
                             .seed = 3});
}

class EveryReciter : public MakeRecite, public testing::WithParamInterface<const char *> {};

TEST_P(EveryReciter, WalksTheWholeTraceAndRoutesAsRecorded) {
    const RoutingTrace trace = trace_for(4);
    StockModel model(make(std::string("--arch ") + GetParam() + " --layers 4 --experts 16 --trace " + write(trace)));
    EXPECT_EQ(model.greedy({0}, walk - 1), from_to(1, walk));
    expect_routing(model, trace, 0, walk - 1);
    EXPECT_THAT(model.greedy({walk - 2, walk - 1}, 3), ElementsAre(0, 1, 2)) << "after the last token comes the first";
}

TEST_P(EveryReciter, RoutesALongPromptAsRecorded) {
    const RoutingTrace trace = trace_for(4);
    StockModel model(make(std::string("--arch ") + GetParam() + " --layers 4 --experts 16 --trace " + write(trace)));
    const std::vector<float> logits = model.decode(from_to(0, walk));
    expect_routing(model, trace, 0, walk);
    const size_t vocab = model.vocab_size();
    for (size_t i = 0; i < walk; i++) {
        const float *row = logits.data() + i * vocab;
        EXPECT_EQ(std::max_element(row, row + vocab) - row, (static_cast<std::ptrdiff_t>(i) + 1) % walk);
    }
}

INSTANTIATE_TEST_SUITE_P(MakeRecite, EveryReciter, testing::Values("qwen3moe", "qwen35moe", "smallthinker"),
                         [](const auto &test) { return std::string(test.param); });

class EveryShape : public MakeRecite, public testing::WithParamInterface<std::pair<const char *, const char *>> {};

// All constructions of orthogonal rows, and quantisation blocks of all widths.
TEST_P(EveryShape, WalksAndRoutesAsRecorded) {
    const RoutingTrace trace = trace_for(2);
    StockModel model(
        make(std::string("--arch qwen3moe --layers 2 --experts 16 ") + GetParam().second + " --trace " + write(trace)));
    constexpr llama_token steps = 95; // the number of tokens that fit into the smallest embedding, minus one
    EXPECT_EQ(model.greedy({0}, steps), from_to(1, steps + 1));
    expect_routing(model, trace, 0, steps);
}

INSTANTIATE_TEST_SUITE_P(MakeRecite, EveryShape,
                         testing::Values(std::pair("f16", "--quant f16 --embd 128"), std::pair("q8_0", "--quant q8_0"),
                                         std::pair("q4_0", "--quant q4_0"), std::pair("q6_k", "--quant q6_k"),
                                         std::pair("mxfp4", "--quant mxfp4"), std::pair("iq2_xs", "--quant iq2_xs"),
                                         std::pair("embd_96", "--embd 96"), std::pair("embd_160", "--embd 160"),
                                         std::pair("embd_1536",
                                                   "--embd 1536 --ff 256 --heads 12 --kv-heads 2 --head-dim 128")),
                         [](const auto &test) { return std::string(test.param.first); });

TEST_F(MakeRecite, WordsAreTheTokensOfTheTrace) {
    const StockModel model(make("--arch qwen3moe --layers 1 --experts 4 --top-k 1 --synthetic 1:0.3:256"));
    EXPECT_EQ(model.vocab_size(), 2048U);
    EXPECT_EQ(model.tokenize("t0 t1 t2 t3 t4 t5 t6"), from_to(0, 7));
    std::string all = "t0";
    for (int word = 1; word < 256; word++) {
        all += " t" + std::to_string(word);
    }
    EXPECT_EQ(model.tokenize(all), from_to(0, 256));
    EXPECT_EQ(model.detokenize(from_to(9, 12)), " t9 t10 t11");
    const std::string other = "t12x, naïve\n🦀 t999";
    EXPECT_EQ(model.detokenize(model.tokenize(other)), " " + other);
}

TEST_F(MakeRecite, AnyTextLeadsIntoTheWalk) {
    StockModel model(make("--arch qwen3moe --layers 2 --experts 16 --synthetic 1:0.3:100"));
    const std::vector<llama_token> answer = model.greedy(model.tokenize("What do you recite?"), 5);
    for (size_t i = 1; i < answer.size(); i++) {
        EXPECT_EQ(answer[i], (answer[i - 1] + 1) % 100);
    }
}

RoutingTrace small_trace(uint32_t top_k, uint32_t n_expert, std::vector<uint32_t> layers,
                         std::vector<std::vector<int32_t>> tokens) {
    RoutingTrace trace;
    trace.n_layer = static_cast<uint32_t>(layers.size());
    trace.n_expert = n_expert;
    trace.top_k = top_k;
    trace.layers = std::move(layers);
    for (std::vector<int32_t> &experts : tokens) {
        trace.tokens.push_back({TracePhase::decode, std::move(experts)});
    }
    return trace;
}

TEST_F(MakeRecite, FoldsALargerTrace) {
    const RoutingTrace trace =
        small_trace(3, 32, {0, 1, 2}, {{1, 17, 2, 5, 4, 3, 0, 1, 2}, {31, 15, 0, 9, 8, 7, 0, 1, 2}});
    StockModel model(make("--arch qwen3moe --layers 2 --experts 16 --top-k 2 --trace " + write(trace)));
    EXPECT_EQ(model.greedy({0}, 2), (std::vector<llama_token>{1, 0}));
    using Sets = std::vector<std::set<int32_t>>;
    EXPECT_EQ(model.routing().at("ffn_moe_topk-0"), (Sets{{1, 2}, {15, 0}})) << "17 is 1, which is taken; so is 31";
    EXPECT_EQ(model.routing().at("ffn_moe_topk-1"), (Sets{{5, 4}, {9, 8}}));
}

TEST_F(MakeRecite, RepeatsASmallerTrace) {
    const RoutingTrace trace = small_trace(2, 8, {0, 1}, {{1, 2, -1, -1}, {3, 4, 5, 6}});
    StockModel model(make("--arch qwen3moe --layers 3 --experts 16 --top-k 3 --trace " + write(trace)));
    EXPECT_EQ(model.greedy({0}, 2), (std::vector<llama_token>{1, 0}));
    using Sets = std::vector<std::set<int32_t>>;
    EXPECT_EQ(model.routing().at("ffn_moe_topk-0"), (Sets{{1, 2, 9}, {3, 4, 11}}));
    EXPECT_EQ(model.routing().at("ffn_moe_topk-1"), (Sets{{1, 2, 9}, {5, 6, 13}})) << "what was not recorded";
    EXPECT_EQ(model.routing().at("ffn_moe_topk-2"), (Sets{{1, 2, 9}, {3, 4, 11}})) << "the first layer again";
}

TEST_F(MakeRecite, EqualSeedsGiveEqualBytes) {
    const std::string shape = "--arch smallthinker --layers 2 --experts 8 --synthetic 1:0.3:50 --seed ";
    const std::string first = contents(make(shape + "7"));
    EXPECT_EQ(first, contents(make(shape + "7")));
    EXPECT_NE(first, contents(make(shape + "8")));
}

TEST_F(MakeRecite, WrongArgumentsAreUsageErrors) {
    const std::string out = " --out " + (folder_ / "none.gguf");
    const auto refused = [&](const std::string &arguments, const std::string &thing) {
        EXPECT_EQ(run(arguments + out), 2) << arguments;
        EXPECT_THAT(printed(), HasSubstr(thing));
    };
    refused("", "--shape");
    refused("--shape 7b", "qwen3-6g, 35b, 4b");
    refused("--arch gemma4", "smallthinker");
    refused("--arch qwen3moe --shape 4b", "excludes");
    refused("--arch qwen3moe --quant q9", "iq4_xs");
    refused("--arch qwen3moe --embd 224 --heads 4", "--embd 224");
    refused("--arch qwen3moe --synthetic 1:0.3", "--synthetic");
    refused("--arch qwen3moe --synthetic 1:x:5", "'x'");
    refused("--arch qwen3moe --synthetic 1:0.3:257", "1 to 256");
    refused("--arch qwen3moe --synthetic 1:2:5", "reuse 2");
    refused("--arch qwen3moe --vocab 300 --synthetic 1:0.3:100", "at least 361");
    refused("--arch qwen3moe --heads 4 --kv-heads 3", "--kv-heads 3");
    EXPECT_EQ(run("--arch qwen3moe --trace " + (folder_ / "absent") + out), 1);
    EXPECT_THAT(printed(), HasSubstr("absent"));
    EXPECT_THAT(contents(folder_ / "none.gguf"), testing::IsEmpty());
}

} // namespace
} // namespace larder::test

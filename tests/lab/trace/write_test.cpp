// The output of a TraceWriter, and synthetic traces.
#include "lab/trace/trace_file.h"

#include <algorithm>
#include <map>
#include <set>

namespace larder::test {
namespace {

class WriteTrace : public TraceFiles {};

TEST_F(WriteTrace, ReadsBackAsItWasWritten) {
    const std::vector<uint32_t> layers = {1, 2, 4};
    const std::vector<TraceToken> tokens = {{TracePhase::prefill, {0, 5, 3, 2, -1, -1}},
                                            {TracePhase::decode, {15, 0, 1, 2, 3, 4}}};
    TraceWriter writer(folder_ / "own.jsonl", "qwen\"3", 16, 2, layers);
    for (const TraceToken &token : tokens) {
        writer.write(token);
    }
    writer.close();
    const RoutingTrace trace = read_trace(folder_ / "own.jsonl");
    EXPECT_EQ(trace.architecture, "qwen\"3");
    EXPECT_EQ(trace.n_expert, 16U);
    EXPECT_EQ(trace.layers, layers);
    ASSERT_EQ(trace.tokens.size(), tokens.size());
    for (size_t i = 0; i < tokens.size(); i++) {
        EXPECT_EQ(trace.tokens[i].phase, tokens[i].phase);
        EXPECT_EQ(trace.tokens[i].experts, tokens[i].experts);
    }
}

TEST_F(WriteTrace, WritesTheBytesOfTheDocument) {
    const std::vector<uint32_t> layers = {0, 1};
    TraceWriter writer(folder_ / "own.jsonl", "olmoe", 64, 2, layers);
    writer.write({TracePhase::prefill, {9, 17, 3, 40}});
    writer.write({TracePhase::decode, {9, 5, -1, -1}});
    writer.close();
    EXPECT_EQ(contents(folder_ / "own.jsonl"),
              R"({"larder_trace":1,"architecture":"olmoe","experts":64,"top_k":2,"layers":[0,1]})"
              "\n"
              R"({"tok":0,"phase":"prefill","layers":[[9,17],[3,40]]})"
              "\n"
              R"({"tok":1,"phase":"decode","layers":[[9,5],[-1,-1]]})"
              "\n");
}

TEST_F(WriteTrace, NamesTheFileThatItCannotWrite) {
    const std::vector<uint32_t> layers = {0};
    const auto refusal_of = [&](const std::string &path) {
        try {
            TraceWriter writer(path, "a", 4, 1, layers);
            writer.close();
        } catch (const Error &error) {
            EXPECT_EQ(error.kind(), ErrorKind::io);
            return error.message();
        }
        return std::string("accepted");
    };
    EXPECT_THAT(refusal_of(folder_ / "missing/own.jsonl"), testing::HasSubstr("missing/own.jsonl"));
    EXPECT_THAT(refusal_of("/dev/full"), testing::HasSubstr("cannot write the trace /dev/full"));
}

// The fraction of experts that the previous token used in the same layer.
double reuse_of(const RoutingTrace &trace) {
    size_t reused = 0;
    size_t all = 0;
    for (size_t token = 1; token < trace.tokens.size(); token++) {
        for (size_t layer = 0; layer < trace.n_layer; layer++) {
            const auto experts_of = [&](size_t t) {
                const auto first = trace.tokens[t].experts.begin() + static_cast<std::ptrdiff_t>(layer * trace.top_k);
                return std::set<int32_t>(first, first + trace.top_k);
            };
            const std::set<int32_t> before = experts_of(token - 1);
            for (const int32_t expert : experts_of(token)) {
                reused += before.count(expert);
                all++;
            }
        }
    }
    return static_cast<double>(reused) / static_cast<double>(all);
}

// The fraction of choices that fall on the most used tenth of the experts.
double hottest_tenth(const RoutingTrace &trace) {
    std::map<std::pair<size_t, int32_t>, size_t> uses;
    size_t all = 0;
    for (const TraceToken &token : trace.tokens) {
        for (size_t i = 0; i < token.experts.size(); i++, all++) {
            uses[{i / trace.top_k, token.experts[i]}]++;
        }
    }
    std::vector<size_t> counts;
    for (const auto &[expert, count] : uses) {
        counts.push_back(count);
    }
    std::ranges::sort(counts, std::greater());
    counts.resize(std::min<size_t>(counts.size(), size_t{trace.n_layer} * trace.n_expert / 10));
    size_t hot = 0;
    for (const size_t count : counts) {
        hot += count;
    }
    return static_cast<double>(hot) / static_cast<double>(all);
}

constexpr SyntheticTrace wanted{
    .n_layer = 3, .n_expert = 100, .top_k = 4, .n_token = 400, .skew = 0, .reuse = 0, .seed = 7};

TEST(SyntheticTrace, HasTheSizesAskedForAndDistinctExperts) {
    SyntheticTrace narrow = wanted;
    narrow.n_expert = 5;
    narrow.reuse = 0.5;
    const RoutingTrace trace = synthesise_trace(narrow);
    EXPECT_EQ(trace.n_layer, 3U);
    EXPECT_EQ(trace.n_expert, 5U);
    ASSERT_EQ(trace.tokens.size(), 400U);
    for (const TraceToken &token : trace.tokens) {
        ASSERT_EQ(token.experts.size(), 12U);
        for (auto first = token.experts.begin(); first != token.experts.end(); first += 4) {
            const std::set<int32_t> distinct(first, first + 4);
            EXPECT_EQ(distinct.size(), 4U);
            EXPECT_GE(*distinct.begin(), 0);
            EXPECT_LT(*distinct.rbegin(), 5);
        }
    }
}

TEST(SyntheticTrace, ReuseAndSkewAreWhatWasAskedFor) {
    const RoutingTrace uniform = synthesise_trace(wanted);
    EXPECT_NEAR(reuse_of(uniform), 0.04, 0.015);
    EXPECT_LT(hottest_tenth(uniform), 0.2);
    SyntheticTrace sticky = wanted;
    sticky.reuse = 0.6;
    EXPECT_NEAR(reuse_of(synthesise_trace(sticky)), 0.6, 0.05);
    SyntheticTrace skewed = wanted;
    skewed.skew = 1.2;
    EXPECT_GT(hottest_tenth(synthesise_trace(skewed)), 0.5);
}

TEST(SyntheticTrace, IsDeterministicInItsSeed) {
    SyntheticTrace other = wanted;
    other.seed = 8;
    const RoutingTrace trace = synthesise_trace(wanted);
    EXPECT_EQ(trace.tokens[399].experts, synthesise_trace(wanted).tokens[399].experts);
    EXPECT_NE(trace.tokens[399].experts, synthesise_trace(other).tokens[399].experts);
}

TEST(SyntheticTrace, RefusesSizesThatNoModelHas) {
    for (const auto change : {+[](SyntheticTrace &t) { t.n_layer = 0; }, +[](SyntheticTrace &t) { t.top_k = 101; },
                              +[](SyntheticTrace &t) { t.n_token = 0; }, +[](SyntheticTrace &t) { t.reuse = 1.5; },
                              +[](SyntheticTrace &t) { t.skew = -1; }}) {
        SyntheticTrace bad = wanted;
        change(bad);
        EXPECT_THROW(synthesise_trace(bad), Error);
    }
}

} // namespace
} // namespace larder::test

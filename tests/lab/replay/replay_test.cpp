// Replays of traces small enough to check by hand.
#include "lab/replay/replay.h"

#include "base/error.h"
#include "store/eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

namespace larder {
namespace {

RoutingTrace trace_of(uint32_t n_layer, uint32_t n_expert, uint32_t top_k, std::vector<TraceToken> tokens) {
    RoutingTrace trace;
    trace.name = "made up";
    trace.n_layer = n_layer;
    trace.n_expert = n_expert;
    trace.top_k = top_k;
    trace.tokens = std::move(tokens);
    return trace;
}

RoutingTrace one_layer(const std::vector<int32_t> &experts) {
    std::vector<TraceToken> tokens;
    for (const int32_t expert : experts) {
        tokens.push_back({TracePhase::decode, {expert}});
    }
    return trace_of(1, 4, 1, tokens);
}

RoutingTrace synthetic(uint64_t seed) {
    return synthesise_trace(
        {.n_layer = 6, .n_expert = 32, .top_k = 3, .n_token = 150, .skew = 0.9, .reuse = 0.3, .seed = seed});
}

uint64_t hits(const RoutingTrace &trace, uint32_t slots, std::string_view policy) {
    return replay(trace, decode_of(trace, false), slots, policy).decode.hits;
}

TEST(Replay, CountsHitsAndMissesOfLru) {
    EXPECT_EQ(hits(one_layer({0, 1, 0, 2, 1, 0}), 2, "lru"), 1U);
    EXPECT_EQ(hits(one_layer({0, 1, 0, 2, 1, 0}), 3, "lru"), 3U);
    EXPECT_EQ(replay(one_layer({0, 1, 0}), decode_of(one_layer({0, 1, 0}), false), 1, "lru").reads, 3U);
}

TEST(Replay, OfAScanThatComesRoundLruKeepsNothingAndTheProductsPolicySomething) {
    std::vector<TraceToken> tokens; // experts 0 and 1 of four layers, alternating
    for (int32_t i = 0; i < 20; ++i) {
        tokens.push_back({TracePhase::decode, std::vector<int32_t>(4, i % 2)});
    }
    EXPECT_EQ(hits(trace_of(4, 2, 1, tokens), 6, "lru"), 0U);
    EXPECT_GE(hits(trace_of(4, 2, 1, tokens), 6, product_policy), 20U);
}

TEST(Replay, WhatALayerNeedsIsThereAtOnceAndIsNotEvictedBeforeItsUse) {
    const RoutingTrace trace = trace_of(1, 8, 3, {{TracePhase::decode, {0, 1, 2}}, {TracePhase::decode, {3, 1, 0}}});
    for (const std::string_view policy : eviction_policies()) {
        EXPECT_EQ(hits(trace, 3, policy), 2U) << policy;
    }
}

TEST(Replay, MoreThanTheSlotsStreamsThrough) {
    const RoutingTrace trace =
        trace_of(1, 8, 6, {{TracePhase::decode, {0, 1, 2, 3, 4, 5}}, {TracePhase::decode, {5, 4, 3, 2, 1, 0}}});
    for (const std::string_view policy : eviction_policies()) {
        const ReplayCount count = replay(trace, decode_of(trace, false), 2, policy);
        EXPECT_EQ(count.decode.accesses, 12U);
        EXPECT_EQ(count.decode.hits, 2U) << policy;
        EXPECT_EQ(count.reads, 10U) << policy;
    }
    EXPECT_EQ(replay_min(trace, decode_of(trace, false), 2).decode.hits, 2U);
}

TEST(Replay, AnAbsentExpertIsNoAccess) {
    const RoutingTrace trace = trace_of(1, 4, 2, {{TracePhase::decode, {-1, 2}}, {TracePhase::decode, {2, -1}}});
    const ReplayCount count = replay(trace, decode_of(trace, false), 2, "lru");
    EXPECT_EQ(count.decode.accesses, 2U);
    EXPECT_EQ(count.decode.hits, 1U);
}

TEST(Replay, ColdBeginsAtTheFirstDecodedTokenAndWarmAfterThePrompt) {
    const RoutingTrace trace =
        trace_of(1, 8, 1, {{TracePhase::prefill, {5}}, {TracePhase::prefill, {6}}, {TracePhase::decode, {5}}});
    EXPECT_EQ(replay(trace, decode_of(trace, false), 4, "lru").decode.hits, 0U);
    const ReplayCount warm = replay(trace, decode_of(trace, true), 4, "lru");
    EXPECT_EQ(warm.decode.hits, 1U);
    EXPECT_EQ(warm.prefill.accesses, 0U) << "the prompt is not counted";
    EXPECT_EQ(warm.reads, 2U);
}

TEST(Replay, RefusesWhatCannotBeReplayed) {
    const RoutingTrace trace = one_layer({0});
    EXPECT_THROW(replay(trace, decode_of(trace, false), 0, "lru"), Error);
    EXPECT_THROW(replay_min(trace, decode_of(trace, false), 0), Error);
    EXPECT_THROW(replay(trace, decode_of(trace, false), 1, "fifo"), Error);
    EXPECT_THROW(decode_of(trace_of(1, 4, 1, {{TracePhase::prefill, {1}}}), true), Error);
}

TEST(Replay, ThePrefillBetweenPrefersOtherExpertsAndComesInUbatchesOf512) {
    const RoutingTrace trace = one_layer({0, 0, 0, 0});
    const auto ubatches = decode_around_prefill(trace, 700);
    ASSERT_EQ(ubatches.size(), 6U);
    EXPECT_EQ(ubatches[2].tokens.size(), 512U);
    EXPECT_EQ(ubatches[3].tokens.size(), 188U);
    EXPECT_EQ(ubatches[2].tokens.front().experts.front(), 2);
    EXPECT_FALSE(ubatches[1].counted);
    EXPECT_TRUE(ubatches[4].counted);
    EXPECT_EQ(decode_around_prefill(trace, 0).size(), 4U);
}

// The maximum number of hits, found by trying all choices. A missing expert must always be cached.
uint64_t most_hits(const std::vector<int32_t> &accesses, size_t slots) {
    std::function<uint64_t(size_t, const std::set<int32_t> &)> best = [&](size_t at, const std::set<int32_t> &cache) {
        if (at == accesses.size()) {
            return uint64_t{0};
        }
        if (cache.contains(accesses[at])) {
            return 1 + best(at + 1, cache);
        }
        std::set<int32_t> with = cache;
        with.insert(accesses[at]);
        if (with.size() <= slots) {
            return best(at + 1, with);
        }
        uint64_t most = 0;
        for (const int32_t gone : cache) {
            std::set<int32_t> next = with;
            next.erase(gone);
            most = std::max(most, best(at + 1, next));
        }
        return most;
    };
    return best(0, {});
}

TEST(ReplayMin, IsTheMostThatAnyChoiceOfVictimsGives) {
    for (uint64_t seed = 1; seed <= 12; ++seed) {
        const RoutingTrace trace = synthesise_trace(
            {.n_layer = 1, .n_expert = 5, .top_k = 1, .n_token = 14, .skew = 0.4, .reuse = 0.1, .seed = seed});
        std::vector<int32_t> accesses;
        for (const TraceToken &token : trace.tokens) {
            accesses.push_back(token.experts.front());
        }
        for (const uint32_t slots : {2U, 3U}) {
            EXPECT_EQ(replay_min(trace, decode_of(trace, false), slots).decode.hits, most_hits(accesses, slots))
                << seed;
        }
    }
}

TEST(ReplayMin, IsNeverBelowAPolicy) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
        const RoutingTrace trace = synthetic(seed);
        for (const uint32_t slots : {18U, 40U, 80U, 192U}) {
            const uint64_t most = replay_min(trace, decode_of(trace, false), slots).decode.hits;
            for (const std::string_view policy : eviction_policies()) {
                EXPECT_LE(hits(trace, slots, policy), most) << policy << " with " << slots << ", seed " << seed;
            }
        }
    }
}

} // namespace
} // namespace larder

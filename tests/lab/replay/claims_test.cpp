// The claims of docs/replacement.md about larder's eviction policy: on traces of real models if they are available
// (they are not in the repository), and against LRU on synthetic traces.
#include "lab/replay/replay.h"
#include "store/eviction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

namespace larder {
namespace {

constexpr std::array<double, 5> shares = {0.10, 0.15, 0.20, 0.25, 0.30};

// shared/traces next to the repository, or next to the folder of its work trees.
std::filesystem::path traces() {
    const std::filesystem::path beside = std::filesystem::path(LARDER_SOURCE_DIR) / ".." / "shared" / "traces";
    const std::filesystem::path above = std::filesystem::path(LARDER_SOURCE_DIR) / ".." / ".." / "shared" / "traces";
    return std::filesystem::exists(beside) ? beside : above;
}

uint32_t slots_of(const RoutingTrace &trace, double share) {
    return static_cast<uint32_t>(std::floor(share * trace.n_layer * trace.n_expert + 1e-9));
}

double rate(const RoutingTrace &trace, const std::vector<Ubatch> &ubatches, double share, std::string_view policy) {
    return 100 * replay(trace, ubatches, slots_of(trace, share), policy).decode.rate();
}

std::vector<RoutingTrace> all_traces() {
    std::vector<RoutingTrace> all;
    for (const uint64_t seed : {1U, 2U}) {
        all.push_back(synthesise_trace(
            {.n_layer = 24, .n_expert = 64, .top_k = 4, .n_token = 160, .skew = 1.0, .reuse = 0.3, .seed = seed}));
    }
    for (const char *name : {"qwen3-30b-a3b.route.csv", "kimi-linear-48b.routes.jsonl"}) {
        const std::filesystem::path path = traces() / name;
        if (std::filesystem::exists(path)) {
            all.push_back(read_trace(path.string()));
        }
    }
    return all;
}

TEST(Claims, TheProductsPolicyIsAboveLruAtEverySizeOnEveryTrace) {
    for (const RoutingTrace &trace : all_traces()) {
        for (const bool warm : {false, true}) {
            for (const double share : shares) {
                EXPECT_GT(rate(trace, decode_of(trace, warm), share, product_policy),
                          rate(trace, decode_of(trace, warm), share, "lru"))
                    << trace.name << " at " << share;
            }
        }
    }
}

TEST(Claims, APrefillOf512BetweenTwoDecodesCostsTheSecondAtMostTwoPoints) {
    for (const RoutingTrace &trace : all_traces()) {
        for (const double share : shares) {
            EXPECT_GE(rate(trace, decode_around_prefill(trace, 512), share, product_policy),
                      rate(trace, decode_around_prefill(trace, 0), share, product_policy) - 2)
                << trace.name << " at " << share;
        }
    }
}

// The best published online policy at each size, see docs/replacement.md.
TEST(Claims, OnTheQwen3TraceItIsAtLeastTheBestOnlinePolicyOfTheFieldAtEachSize) {
    if (!std::filesystem::exists(traces())) {
        GTEST_SKIP() << "no recorded traces at " << traces();
    }
    const RoutingTrace trace = read_trace((traces() / "qwen3-30b-a3b.route.csv").string());
    const std::array<double, 5> best = {59.2, 69.4, 77.6, 83.1, 87.2};
    for (size_t i = 0; i < shares.size(); ++i) {
        EXPECT_GE(rate(trace, decode_of(trace, false), shares[i], product_policy), best[i]) << shares[i];
    }
}

// Others have published measurements on the same trace. The replay must reproduce their figures.
TEST(Claims, TheReplayFindsTheFieldsFiguresForLruAndMin) {
    if (!std::filesystem::exists(traces())) {
        GTEST_SKIP() << "no recorded traces at " << traces();
    }
    const RoutingTrace trace = read_trace((traces() / "qwen3-30b-a3b.route.csv").string());
    const std::array<std::pair<double, double>, 5> figures = {
        {{49.9, 73.9}, {65.1, 81.9}, {73.5, 86.8}, {81.6, 89.5}, {86.4, 91.1}}};
    for (size_t i = 0; i < shares.size(); ++i) {
        const auto ubatches = decode_of(trace, false);
        EXPECT_NEAR(rate(trace, ubatches, shares[i], "lru"), figures[i].first, 0.06);
        EXPECT_NEAR(100 * replay_min(trace, ubatches, slots_of(trace, shares[i])).decode.rate(), figures[i].second,
                    0.06);
    }
}

// Without a trace of the model, larder plan predicts from synthetic tokens.
TEST(Claims, SyntheticTokensHitAboutAsOftenAsTheTwoRealTraces) {
    struct Real {
        SyntheticTrace shape;
        std::array<double, 5> rates; // from docs/replacement.md, at `shares`
    };
    const std::array<Real, 2> real = {
        {{{.n_layer = 16, .n_expert = 128, .top_k = 6, .n_token = 128}, {59.6, 70.5, 77.9, 83.6, 87.5}},
         {{.n_layer = 16, .n_expert = 256, .top_k = 8, .n_token = 300}, {56.3, 63.8, 69.7, 74.3, 77.8}}}};
    double squares = 0;
    for (Real each : real) {
        each.shape.skew = skew_like_real;
        each.shape.reuse = reuse_like_real;
        const RoutingTrace trace = synthesise_trace(each.shape);
        for (size_t i = 0; i < shares.size(); i++) {
            const double error = rate(trace, decode_of(trace, false), shares[i], product_policy) - each.rates[i];
            EXPECT_LT(std::abs(error), 13) << each.shape.n_expert << " experts at " << shares[i];
            squares += error * error;
        }
    }
    EXPECT_LT(std::sqrt(squares / 10), 7.5);
}

} // namespace
} // namespace larder

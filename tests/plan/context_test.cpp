// The search for the longest context that fits, with needs defined by the test.
#include "base/bytes.h"
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace larder {

namespace {

// Counts its calls.
class Need {
  public:
    explicit Need(NeedOfContext need) : need_(std::move(need)) {}
    std::optional<uint32_t> largest(uint32_t refused_tokens, uint64_t room) {
        asked = 0;
        return largest_context(refused_tokens, room, [this](uint32_t tokens) {
            asked++;
            EXPECT_EQ(tokens % ctx_tokens_step, 0U);
            return need_(tokens);
        });
    }
    int asked = 0;

  private:
    NeedOfContext need_;
};

// Linear search, the reference.
std::optional<uint32_t> one_after_the_other(uint32_t refused_tokens, uint64_t room, const NeedOfContext &need_of) {
    std::optional<uint32_t> largest;
    for (uint32_t tokens = ctx_tokens_step; tokens < refused_tokens && need_of(tokens) <= room;
         tokens += ctx_tokens_step) {
        largest = tokens;
    }
    return largest;
}

uint64_t line(uint32_t tokens) { return 100 * MiB + uint64_t{tokens} * 96 * KiB; }

} // namespace

TEST(RoundedContext, IsTheNextMultipleOfLlamaCppsStep) {
    EXPECT_EQ(rounded_context(1), 256U);
    EXPECT_EQ(rounded_context(256), 256U);
    EXPECT_EQ(rounded_context(257), 512U);
    EXPECT_EQ(rounded_context(UINT32_MAX) % ctx_tokens_step, 0U) << "the longest there is";
    EXPECT_EQ(rounded_context_note(512), "");
    EXPECT_EQ(rounded_context_note(64), "-c 64 becomes 256: llama.cpp's contexts are multiples of 256 tokens");
}

TEST(LargestContext, IsFoundWithFewQuestionsWhereTheNeedIsALine) {
    Need need(line);
    EXPECT_EQ(need.largest(131072, line(20000)), 19968U);
    EXPECT_LE(need.asked, 5);
    EXPECT_EQ(need.largest(131072, line(20224)), 20224U) << "what fits exactly fits";
    EXPECT_EQ(need.largest(131072, line(20224) - 1), 19968U);
}

TEST(LargestContext, IsNoneWhereNotEvenTheShortestFits) {
    Need need(line);
    EXPECT_EQ(need.largest(4096, 1 * MiB), std::nullopt);
    EXPECT_EQ(need.asked, 1);
    EXPECT_EQ(need.largest(256, 1024 * GiB), std::nullopt) << "the shortest is what was refused";
    EXPECT_EQ(need.asked, 0);
}

TEST(LargestContext, IsBelowTheOneThatWasRefused) {
    Need need(line);
    EXPECT_EQ(need.largest(4096, 1024 * GiB), 3840U);
    EXPECT_EQ(need.largest(4100, 1024 * GiB), 4096U);
    EXPECT_EQ(need.largest(512, 1024 * GiB), 256U);
}

TEST(LargestContext, DoesNotMindContextsThatCannotBeAskedAbout) {
    Need need([](uint32_t tokens) { return tokens > 40000 ? UINT64_MAX : line(tokens); });
    EXPECT_EQ(need.largest(2'000'000'000, line(1'000'000)), 39936U);
    EXPECT_LE(need.asked, 40);
}

TEST(LargestContext, IsTheSameAsOneAfterTheOtherForAnyNeed) {
    std::mt19937_64 random(11);
    for (int round = 0; round < 500; round++) {
        // Layers with a sliding window stop growing; others grow on, in steps of the buffers' rounding.
        const uint64_t base = random() % GiB;
        const uint64_t window = random() % 20000;
        const uint64_t slopes[] = {random() % (200 * KiB), random() % (200 * KiB)};
        const uint64_t rounding = 1 + random() % (8 * MiB);
        const auto need_of = [&](uint32_t tokens) {
            const uint64_t bytes = base + tokens * slopes[0] + std::min<uint64_t>(tokens, window) * slopes[1];
            return (bytes + rounding - 1) / rounding * rounding;
        };
        const auto refused = static_cast<uint32_t>(1 + random() % 60000);
        const uint64_t room = random() % (3 * GiB);
        Need need(need_of);
        ASSERT_EQ(need.largest(refused, room), one_after_the_other(refused, room, need_of)) << "round " << round;
        EXPECT_LE(need.asked, 24) << "round " << round;
    }
}

} // namespace larder

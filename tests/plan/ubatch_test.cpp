// How the plan chooses a ubatch, with measurements defined by the test.
#include "base/bytes.h"
#include "base/error.h"
#include "plan/plan.h"

#include <gmock/gmock.h>

#include <map>

namespace larder {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Machine machine = {1024 * GiB, "MemAvailable"};
constexpr uint64_t slice = 1 * MiB;
constexpr uint64_t others = 100 * MiB; // memory that does not depend on the ubatch

// Experts of 8 GiB in slices of 1 MiB; one token needs 64.
ModelLayout some_layout() {
    ModelLayout layout;
    layout.size_classes = {{slice, slice, 8192, 64}};
    return layout;
}

// Compute buffers in MiB, by ubatch. Records which ubatches were measured.
class Measured {
  public:
    explicit Measured(std::map<uint32_t, uint64_t> compute_mib) : compute_mib_(std::move(compute_mib)) {}

    MemoryPlan plan(const std::vector<uint32_t> &candidates, const PlanOptions &options,
                    const ModelLayout &layout = some_layout()) {
        asked.clear();
        const auto fixed_of = [this](uint32_t tokens) {
            asked.push_back(tokens);
            return FixedBytes{others, 0, compute_mib_.at(tokens) * MiB, 0};
        };
        return choose_ubatch(candidates, fixed_of, layout, machine, options);
    }
    std::vector<uint32_t> asked;

  private:
    std::map<uint32_t, uint64_t> compute_mib_;
};

// With 512: 160 MiB of compute buffers, with 32: 10.
Measured in_proportion() { return Measured({{512, 160}, {256, 80}, {128, 40}, {64, 20}, {32, 10}}); }

// A budget that leaves an arena of this many MiB if the compute buffers take 10 MiB.
PlanOptions smallest_leaves(uint64_t arena_mib) {
    PlanOptions options;
    options.reserve_bytes = 0;
    options.budget_bytes = others + (10 + arena_mib) * MiB;
    return options;
}

const std::vector<uint32_t> all = {512, 256, 128, 64, 32};

} // namespace

TEST(UbatchCandidates, AreNotAboveTheContext) {
    EXPECT_THAT(ubatch_candidates(4096), ElementsAre(512, 256, 128, 64, 32));
    EXPECT_THAT(ubatch_candidates(512), ElementsAre(512, 256, 128, 64, 32));
    EXPECT_THAT(ubatch_candidates(511), ElementsAre(511, 256, 128, 64, 32));
    EXPECT_THAT(ubatch_candidates(64), ElementsAre(64, 32));
    EXPECT_THAT(ubatch_candidates(32), ElementsAre(32));
    EXPECT_THAT(ubatch_candidates(1), ElementsAre(1));
}

TEST(ChooseUbatch, TakesTheLargestThatLeavesSevenEighthsOfTheArena) {
    // With a ubatch of 512 the arena is 150 MiB smaller than with 32, with 256 it is 70 MiB smaller, and so on: one
    // eighth of 1200, 560, 240, 80.
    Measured measured = in_proportion();
    for (const auto &[arena_mib, ubatch] : {std::pair{1200U, 512U},
                                            {1199U, 256U},
                                            {560U, 256U},
                                            {559U, 128U},
                                            {240U, 128U},
                                            {239U, 64U},
                                            {80U, 64U},
                                            {79U, 32U},
                                            {64U, 32U}}) {
        const MemoryPlan plan = measured.plan(all, smallest_leaves(arena_mib));
        EXPECT_EQ(plan.ubatch_tokens, ubatch) << arena_mib;
        EXPECT_EQ(plan.fixed.compute, ubatch * 10 / 32 * MiB) << arena_mib;
    }
}

TEST(ChooseUbatch, IsTheLargestWhereAllExpertsFitBesideIt) {
    Measured measured({{512, 4096}, {256, 2048}, {128, 1024}, {64, 512}, {32, 10}});
    EXPECT_EQ(measured.plan(all, smallest_leaves(8192 + 4086)).ubatch_tokens, 512U);
    EXPECT_THAT(measured.asked, ElementsAre(512)) << "no other can be better";
    EXPECT_EQ(measured.plan(all, smallest_leaves(8192 + 4086 - 1025)).ubatch_tokens, 256U);
}

TEST(ChooseUbatch, KeepsAllExpertsInTheArenaWhereTheSmallestDoes) {
    Measured measured = in_proportion();
    EXPECT_EQ(measured.plan(all, smallest_leaves(8192 + 149)).ubatch_tokens, 256U) << "beside 512 a MiB is missing";
    EXPECT_EQ(measured.plan(all, smallest_leaves(8192)).ubatch_tokens, 32U);
    EXPECT_EQ(measured.plan(all, smallest_leaves(8191)).ubatch_tokens, 512U) << "some are read anyway";
}

TEST(ChooseUbatch, IsTheLargestWhereItIsTheUserWhoBoundsTheArena) {
    PlanOptions options = smallest_leaves(600);
    options.arena_bytes = 100 * MiB;
    EXPECT_EQ(in_proportion().plan(all, options).ubatch_tokens, 512U);
}

TEST(ChooseUbatch, IsTheLargestThatFitsForADenseModel) {
    Measured measured = in_proportion();
    EXPECT_EQ(measured.plan(all, smallest_leaves(150), {}).ubatch_tokens, 512U);
    EXPECT_EQ(measured.plan(all, smallest_leaves(149), {}).ubatch_tokens, 256U);
    EXPECT_EQ(measured.plan(all, smallest_leaves(0), {}).ubatch_tokens, 32U);
}

TEST(ChooseUbatch, MeasuresNoMoreThanItNeeds) {
    Measured measured = in_proportion();
    measured.plan(all, smallest_leaves(2000));
    EXPECT_THAT(measured.asked, ElementsAre(512, 32));
    measured.plan(all, smallest_leaves(600));
    EXPECT_THAT(measured.asked, ElementsAre(512, 32, 256));
    measured.plan(all, smallest_leaves(64));
    EXPECT_THAT(measured.asked, ElementsAre(512, 32, 256, 128, 64));
}

TEST(ChooseUbatch, TakesWhatTheUserNamedWhateverItCosts) {
    Measured measured = in_proportion();
    EXPECT_EQ(measured.plan({512}, smallest_leaves(300)).ubatch_tokens, 512U);
    EXPECT_THAT(measured.asked, ElementsAre(512));
    EXPECT_THROW(measured.plan({512}, smallest_leaves(64)), Error) << "though 32 would fit";
}

TEST(ChooseUbatch, RefusesWithTheSmallestBudgetOfTheSmallest) {
    Measured measured = in_proportion();
    try {
        measured.plan(all, smallest_leaves(63));
        FAIL() << "not refused";
    } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::budget);
        EXPECT_THAT(error.what(), HasSubstr("compute buffers 10 MiB"));
        const Remedy *const larger = error.find_remedy(RemedyKind::larger_budget);
        ASSERT_NE(larger, nullptr) << error.what();
        PlanOptions options = smallest_leaves(0);
        options.budget_bytes = larger->amount;
        EXPECT_EQ(options.budget_bytes, others + (10 + 64 + 2) * MiB);
        EXPECT_EQ(measured.plan(all, options).ubatch_tokens, 32U);
    }
}

TEST(ChooseUbatch, PassesOnWhatIsNoMatterOfTheBudget) {
    const auto fails = [](uint32_t /*tokens*/) -> FixedBytes { throw Error(ErrorKind::engine, "no such context"); };
    try {
        choose_ubatch(all, fails, some_layout(), machine, smallest_leaves(2000));
        FAIL() << "no error";
    } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::engine);
    }
}

} // namespace larder

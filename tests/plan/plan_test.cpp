// How a budget is divided.
#include "plan_fixture.h"

#include <gmock/gmock.h>

namespace larder::test {
namespace {

using testing::HasSubstr;

TEST(Plan, ReservesASixteenthUpToAGibibyte) {
    EXPECT_EQ(default_reserve(8 * GiB), 512 * MiB);
    EXPECT_EQ(default_reserve(16 * GiB), 1 * GiB);
    EXPECT_EQ(default_reserve(100 * GiB), 1 * GiB);
    EXPECT_EQ(default_reserve(0), 0U);
}

TEST(Plan, AccountsForEveryByteOfTheBudget) {
    const ModelLayout layout = two_classes();
    const MemoryPlan plan = plan_with(layout, some_fixed(), 8 * GiB);
    expect_sound(layout, plan);
    EXPECT_EQ(plan.budget_source, "--ram");
    EXPECT_EQ(plan.reserve_bytes, 512 * MiB);
    EXPECT_EQ(plan.floor_bytes, 800 * (589824 + 4096) + 160 * uint64_t{860160 + 4096});
    EXPECT_LT(plan.spare_bytes, 860160U + 4096U); // less than one slot
}

TEST(Plan, SharesTheArenaInProportionToWhatATokenDemandsOfTheClasses) {
    // Both classes have the same number of slices, but the layers of the second use a quarter as many.
    ModelLayout layout;
    layout.size_classes = {size_class(8192, 4000, 160), size_class(12288, 4000, 40)};
    const uint64_t arena = 1000 * 8192 + 250 * 12288;
    const MemoryPlan plan = make_plan(layout, {}, big_machine, ram_and_reserve(arena, 0));
    expect_sound(layout, plan);
    EXPECT_EQ(plan.slots, (std::vector<uint64_t>{1000, 250}));
}

TEST(Plan, CachesEqualSharesOfClassesThatAreUsedAlike) {
    const ModelLayout layout = two_classes();
    const MemoryPlan plan = plan_with(layout, some_fixed(), 8 * GiB);
    const double first = static_cast<double>(plan.slots[0]) / static_cast<double>(layout.size_classes[0].n_slices);
    const double second = static_cast<double>(plan.slots[1]) / static_cast<double>(layout.size_classes[1].n_slices);
    EXPECT_NEAR(first, second, 0.001);
}

TEST(Plan, GivesOthersWhatAFullClassCannotUse) {
    ModelLayout layout;
    // One token needs nearly all slices of the first class, so its share of the remainder fills the class.
    layout.size_classes = {size_class(8192, 1000, 990), size_class(16384, 1000, 10)};
    const uint64_t arena = 990 * 8192 + 10 * 16384 + 300 * 16384;
    const MemoryPlan plan = make_plan(layout, {}, big_machine, ram_and_reserve(arena, 0));
    expect_sound(layout, plan);
    EXPECT_EQ(plan.slots[0], 1000U);
    EXPECT_EQ(plan.slots[1], 10U + 300U - 5U);
    EXPECT_EQ(plan.spare_bytes, 0U);
}

TEST(Plan, NeverPlansMoreSlotsThanThereAreSlices) {
    const ModelLayout layout = two_classes();
    const MemoryPlan plan = plan_with(layout, some_fixed(), 64 * GiB);
    expect_sound(layout, plan);
    EXPECT_EQ(plan.arena_bytes, all_experts_of(layout));
    EXPECT_EQ(plan.spare_bytes, 64 * GiB - 1 * GiB - total_of(some_fixed()) - plan.arena_bytes);
}

TEST(Plan, LeavesToOthersWhatTheyHavePlannedUnlessABudgetIsNamed) {
    const Machine machine = {.usable_bytes = 6 * GiB, .source = "MemAvailable", .claimed_bytes = 2 * GiB};
    const MemoryPlan plan = make_plan(two_classes(), some_fixed(), machine, {});
    expect_sound(two_classes(), plan);
    EXPECT_EQ(plan.budget_bytes, 4 * GiB);
    EXPECT_EQ(plan.budget_source, "MemAvailable, less 2 GiB that other larder processes have planned");
    EXPECT_EQ(make_plan(two_classes(), some_fixed(), machine, ram(6 * GiB)).budget_bytes, 6 * GiB);
    Machine all_planned = machine;
    all_planned.claimed_bytes = 6 * GiB;
    const Error error = refusal_of(two_classes(), some_fixed(), all_planned, {});
    EXPECT_THAT(error.message(), HasSubstr("less 6 GiB that other larder processes have planned) is too small"));
    EXPECT_EQ(named_budget(error), smallest_budget(two_classes(), some_fixed(), {})) << "who asks for it may have it";
}

TEST(Plan, ClaimsAllButTheSpareBudget) {
    for (const uint64_t budget : {4 * GiB, 64 * GiB}) {
        const MemoryPlan plan = plan_with(two_classes(), some_fixed(), budget);
        EXPECT_EQ(claimed_bytes(plan), plan.budget_bytes - plan.spare_bytes);
    }
}

TEST(Plan, HoldsAllExpertsWhereEverySliceHasASlot) {
    const ModelLayout layout = two_classes();
    EXPECT_TRUE(holds_all_experts(layout, plan_with(layout, some_fixed(), 64 * GiB)));
    EXPECT_FALSE(holds_all_experts(layout, plan_with(layout, some_fixed(), 8 * GiB)));
    EXPECT_TRUE(holds_all_experts({}, plan_with({}, some_fixed(), 8 * GiB)));
    MemoryPlan plan = plan_with(layout, some_fixed(), 64 * GiB);
    plan.slots[1]--;
    EXPECT_FALSE(holds_all_experts(layout, plan));
}

TEST(Plan, LetsTheReserveHoldWhatTheKernelAlreadyChargedForThisProcess) {
    const Machine machine = {8 * GiB - MiB, "cgroup memory.max of /box"};
    expect_sound(two_classes(), make_plan(two_classes(), some_fixed(), machine, ram(8 * GiB)));
}

TEST(Plan, HasNoArenaForADenseModel) {
    const ModelLayout dense;
    const MemoryPlan plan = plan_with(dense, some_fixed(), 8 * GiB);
    expect_sound(dense, plan);
    EXPECT_EQ(plan.floor_bytes, 0U);
    EXPECT_EQ(plan.arena_bytes, 0U);
    EXPECT_TRUE(plan.slots.empty());
    EXPECT_EQ(plan.spare_bytes, 8 * GiB - 512 * MiB - total_of(some_fixed()));
    EXPECT_EQ(refusal_of(dense, some_fixed(), big_machine, ram(1 * GiB)).kind(), ErrorKind::budget);
}

TEST(Plan, NeverUnderflowsWhenTheReserveIsAboveTheBudget) {
    const PlanOptions options = ram_and_reserve(1 * GiB, 2 * GiB);
    EXPECT_EQ(refusal_of(ModelLayout{}, {}, big_machine, options).kind(), ErrorKind::budget);
}

TEST(Plan, CapsTheArenaAtWhatWasAskedFor) {
    PlanOptions options = ram(8 * GiB);
    options.arena_bytes = 2 * GiB;
    const MemoryPlan plan = make_plan(two_classes(), some_fixed(), big_machine, options);
    expect_sound(two_classes(), plan);
    EXPECT_LE(plan.arena_bytes, 2 * GiB);
    EXPECT_GT(plan.arena_bytes, 2 * GiB - 2 * MiB);
}

TEST(Transient, IsHeldByTheReserveAndMakesItLargerWhereItIsTooSmall) {
    const ModelLayout layout = two_classes();
    FixedBytes fixed = some_fixed();
    const MemoryPlan without = make_plan(layout, fixed, big_machine, ram(8 * GiB));
    ASSERT_EQ(without.reserve_bytes, 512 * MiB);
    fixed.transient = 384 * MiB; // a quarter of the reserve may also be gone
    EXPECT_EQ(make_plan(layout, fixed, big_machine, ram(8 * GiB)).slots, without.slots);
    fixed.transient = 400 * MiB;
    const MemoryPlan larger = make_plan(layout, fixed, big_machine, ram(8 * GiB));
    expect_sound(layout, larger);
    EXPECT_EQ(larger.reserve_bytes, 528 * MiB);
    EXPECT_LT(larger.arena_bytes, without.arena_bytes);
    EXPECT_EQ(make_plan(layout, fixed, big_machine, ram_and_reserve(8 * GiB, 0)).reserve_bytes, 400 * MiB);
    const uint64_t smallest = smallest_budget(layout, fixed, {});
    EXPECT_TRUE(works(layout, a_little_more(fixed), {}, smallest));
    EXPECT_FALSE(works(layout, a_little_more(fixed), {}, smallest - MiB));
}

} // namespace
} // namespace larder::test

#include "plan/plan.h"

#include "base/bytes.h"
#include "base/error.h"
#include "machine/address_limits.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace larder {

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const Machine big_machine = {1024 * GiB, "MemAvailable"};

SizeClass size_class(uint64_t slot_bytes, uint64_t n_slices, uint64_t n_slices_per_token) {
    return {slot_bytes - 100, slot_bytes, n_slices, n_slices_per_token};
}

// The shape of the 35B model: 40 layers of 256 experts, 8 used; gate and up small, down large in half of the layers.
ModelLayout two_classes() {
    ModelLayout layout;
    layout.size_classes = {size_class(589824 + 4096, 100 * 256, 100 * 8), size_class(860160 + 4096, 20 * 256, 20 * 8)};
    return layout;
}

FixedBytes some_fixed() { return {1577 * MiB + 12345, 80 * MiB, 300 * MiB + 7, 120 * MiB, 0}; }

PlanWishes ram(uint64_t budget) {
    PlanWishes wishes;
    wishes.budget_bytes = budget;
    return wishes;
}

PlanWishes ram_anyway(uint64_t budget) {
    PlanWishes wishes = ram(budget);
    wishes.overcommit = true;
    return wishes;
}

PlanWishes ram_and_reserve(uint64_t budget, uint64_t reserve) {
    PlanWishes wishes = ram(budget);
    wishes.reserve_bytes = reserve;
    return wishes;
}

uint64_t total_of(const FixedBytes &fixed) { return fixed.resident + fixed.kv + fixed.compute + fixed.overhead; }

uint64_t all_experts_of(const ModelLayout &layout) {
    uint64_t bytes = 0;
    for (const SizeClass &each : layout.size_classes) {
        bytes += each.n_slices * each.slot_bytes;
    }
    return bytes;
}

MemoryPlan plan_with(const ModelLayout &layout, const FixedBytes &fixed, uint64_t budget) {
    return make_plan(layout, fixed, big_machine, ram(budget));
}

// The error of a plan that is refused.
Error refusal_of(const ModelLayout &layout, const FixedBytes &fixed, const Machine &machine, const PlanWishes &wishes) {
    try {
        make_plan(layout, fixed, machine, wishes);
    } catch (const Error &error) {
        return error;
    }
    ADD_FAILURE() << "not refused";
    return {ErrorKind::engine, "not refused"};
}

bool works(const ModelLayout &layout, const FixedBytes &fixed, PlanWishes wishes, uint64_t budget) {
    wishes.budget_bytes = budget;
    try {
        make_plan(layout, fixed, big_machine, wishes);
        return true;
    } catch (const Error &) {
        return false;
    }
}

// What the next measurement may find: the refusal names a budget that works then too.
FixedBytes a_little_more(FixedBytes fixed) {
    fixed.overhead += 2 * MiB;
    return fixed;
}

// The number between "--ram " and "M" of a remedy.
uint64_t named_budget(const Error &error) {
    const size_t at = error.remedy().find("--ram ");
    return at == std::string::npos ? 0 : std::stoull(error.remedy().substr(at + 6)) * MiB;
}

// What holds of every plan.
void expect_sound(const ModelLayout &layout, const MemoryPlan &plan) {
    ASSERT_EQ(plan.slots.size(), layout.size_classes.size());
    uint64_t arena = 0;
    for (size_t i = 0; i < plan.slots.size(); i++) {
        EXPECT_GE(plan.slots[i], layout.size_classes[i].n_slices_per_token);
        EXPECT_LE(plan.slots[i], layout.size_classes[i].n_slices);
        arena += plan.slots[i] * layout.size_classes[i].slot_bytes;
    }
    EXPECT_EQ(plan.arena_bytes, arena);
    EXPECT_GE(plan.arena_bytes, plan.floor_bytes);
    EXPECT_EQ(total_of(plan.fixed) + plan.reserve_bytes + plan.arena_bytes + plan.spare_bytes, plan.budget_bytes);
}

} // namespace

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
    EXPECT_LT(plan.spare_bytes, 860160U + 4096U); // less than a slot
}

TEST(Plan, SharesTheArenaInProportionToWhatATokenDemandsOfTheClasses) {
    // As many slices in both, but the layers of the second use a quarter as many of theirs.
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
    // One token needs nearly all of the first class, so its share of the rest fills it.
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

TEST(Plan, NamesTheSmallestBudgetThatWorks) {
    const ModelLayout layout = two_classes();
    const Error error = refusal_of(layout, some_fixed(), big_machine, ram(2 * GiB));
    EXPECT_EQ(error.kind(), ErrorKind::budget);
    const uint64_t smallest = named_budget(error);
    EXPECT_TRUE(works(layout, a_little_more(some_fixed()), {}, smallest));
    EXPECT_FALSE(works(layout, a_little_more(some_fixed()), {}, smallest - MiB));
}

TEST(Plan, NamesTheSmallestBudgetOfAnyModel) {
    std::mt19937_64 random(7);
    for (int round = 0; round < 300; round++) {
        ModelLayout layout;
        for (uint64_t n = random() % 4; n > 0; n--) {
            const uint64_t used = random() % 1000 + 1;
            layout.size_classes.push_back(size_class((random() % 500 + 1) * 4096, used + random() % 20000, used));
        }
        const FixedBytes fixed = {random() % (20 * GiB), random() % GiB, random() % GiB, random() % (200 * MiB)};
        PlanWishes wishes;
        if (round % 3 == 0) {
            wishes.reserve_bytes = random() % (3 * GiB);
        }
        wishes.budget_bytes = 1 * MiB;
        const Error error = refusal_of(layout, fixed, big_machine, wishes);
        const uint64_t smallest = named_budget(error);
        ASSERT_TRUE(works(layout, a_little_more(fixed), wishes, smallest)) << "round " << round << ": " << error.what();
        ASSERT_FALSE(works(layout, a_little_more(fixed), wishes, smallest - MiB))
            << "round " << round << ": " << error.what();
        wishes.budget_bytes = smallest + random() % (30 * GiB);
        expect_sound(layout, make_plan(layout, fixed, big_machine, wishes));
    }
}

TEST(Plan, SaysInOneLineWhatTheBudgetWouldHaveToHold) {
    const FixedBytes fixed = {1536 * MiB, 80 * MiB, 300 * MiB, 120 * MiB};
    const Error error = refusal_of(two_classes(), fixed, big_machine, ram(2 * GiB));
    const std::string line = error.what();
    EXPECT_THAT(line, AllOf(HasSubstr("2 GiB (--ram)"), HasSubstr("1.5 GiB"), HasSubstr("80 MiB"), HasSubstr("300 MiB"),
                            HasSubstr("120 MiB"), HasSubstr("128 MiB")));
    EXPECT_THAT(line, AllOf(HasSubstr("one token's experts 585"), HasSubstr("or lower -c"), Not(HasSubstr("\n"))));
    EXPECT_THAT(line, Not(HasSubstr("--reserve")));
}

TEST(Plan, OffersToLowerAReserveThatWasAskedFor) {
    const PlanWishes wishes = ram_and_reserve(4 * GiB, 3 * GiB);
    EXPECT_THAT(refusal_of(two_classes(), some_fixed(), big_machine, wishes).remedy(), HasSubstr("lower --reserve"));
}

TEST(Plan, DoesNotAdviseABudgetThatTheMachineCannotGive) {
    const Machine small = {1 * GiB, "cgroup memory.max of /box"};
    const Error error = refusal_of(two_classes(), some_fixed(), small, {});
    EXPECT_THAT(error.what(), HasSubstr("1 GiB (cgroup memory.max of /box)"));
    EXPECT_THAT(error.remedy(), AllOf(HasSubstr("more than the 1 GiB"), HasSubstr("lower -c")));
    EXPECT_THAT(error.remedy(), Not(HasSubstr("use --ram")));
    EXPECT_TRUE(works(two_classes(), some_fixed(), {}, named_budget(error)));
}

TEST(Plan, TakesWhatTheMachineGivesWithoutABudget) {
    const Machine machine = {6 * GiB, "MemAvailable"};
    const MemoryPlan plan = make_plan(two_classes(), some_fixed(), machine, {});
    expect_sound(two_classes(), plan);
    EXPECT_EQ(plan.budget_bytes, 6 * GiB);
    EXPECT_EQ(plan.budget_source, "MemAvailable");
}

TEST(Plan, RefusesABudgetAboveWhatTheMachineGives) {
    const Machine machine = {6 * GiB + 5, "cgroup memory.max of /box"};
    const Error error = refusal_of(two_classes(), some_fixed(), machine, ram(8 * GiB));
    EXPECT_EQ(error.kind(), ErrorKind::budget);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("8 GiB"), HasSubstr("6 GiB"), HasSubstr("cgroup memory.max of /box")));
    EXPECT_EQ(error.remedy(), "use --ram 6144M or less, or --overcommit");
}

// The kernel's memory for the process is inside the reserve that is in force, whatever was asked for.
TEST(Plan, ToleratesAQuarterOfTheRaisedReserveAboveTheMachine) {
    FixedBytes fixed = some_fixed();
    fixed.passing = 8 * MiB;
    PlanWishes wishes = ram(8 * GiB);
    wishes.reserve_bytes = 0;
    EXPECT_NO_THROW(make_plan(two_classes(), fixed, {8 * GiB - 2 * MiB, "cgroup"}, wishes));
    EXPECT_THROW(make_plan(two_classes(), fixed, {8 * GiB - 2 * MiB - 1, "cgroup"}, wishes), Error);
}

TEST(Plan, AboveTheMachineAdvisesNoBudgetBelowTheSmallest) {
    const Machine small = {1 * GiB, "cgroup memory.max of /box"};
    const Error error = refusal_of(two_classes(), some_fixed(), small, ram(8 * GiB));
    EXPECT_THAT(error.message(), HasSubstr("a budget of 8 GiB is more than the 1 GiB that this process may use"));
    EXPECT_THAT(error.remedy(), AllOf(HasSubstr("even the smallest that works, --ram "),
                                      HasSubstr("M, is more: make room, or take --overcommit, or lower -c")));
    EXPECT_EQ(named_budget(error), smallest_budget(two_classes(), some_fixed(), {}));
    const Machine limited = {0, "RLIMIT_AS (ulimit -v)", "ulimit -v", 300 * MiB};
    EXPECT_THAT(refusal_of(two_classes(), some_fixed(), limited, ram(8 * GiB)).remedy(),
                AllOf(HasSubstr("is more: raise 'ulimit -v' to 8695808 or more, or lower -c"),
                      Not(HasSubstr("--ram 0M")), Not(HasSubstr("overcommit"))));
}

TEST(Plan, AboveTheMachineAdvisesTheSmallestBudgetWhereTheMachineGivesJustThat) {
    const uint64_t smallest = smallest_budget(two_classes(), some_fixed(), {});
    const Machine just = {smallest - MiB, "MemAvailable"}; // the reserve may be charged already
    const Error error = refusal_of(two_classes(), some_fixed(), just, ram(8 * GiB));
    EXPECT_EQ(named_budget(error), smallest);
    EXPECT_NO_THROW(make_plan(two_classes(), some_fixed(), just, ram(smallest)));
    EXPECT_THAT(error.remedy(), HasSubstr("M or less, or --overcommit"));
}

TEST(Plan, LetsTheReserveHoldWhatTheKernelAlreadyChargedForThisProcess) {
    const Machine machine = {8 * GiB - MiB, "cgroup memory.max of /box"};
    expect_sound(two_classes(), make_plan(two_classes(), some_fixed(), machine, ram(8 * GiB)));
}

TEST(Plan, AcceptsABudgetAboveTheMachineWithOvercommit) {
    const Machine machine = {3 * GiB, "MemAvailable"};
    const MemoryPlan plan = make_plan(two_classes(), some_fixed(), machine, ram_anyway(8 * GiB));
    expect_sound(two_classes(), plan);
    EXPECT_EQ(plan.budget_bytes, 8 * GiB);
    EXPECT_THAT(refusal_of(two_classes(), some_fixed(), machine, ram_anyway(1 * GiB)).remedy(), HasSubstr("use --ram"));
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
    const PlanWishes wishes = ram_and_reserve(1 * GiB, 2 * GiB);
    EXPECT_EQ(refusal_of(ModelLayout{}, {}, big_machine, wishes).kind(), ErrorKind::budget);
}

TEST(Plan, CapsTheArenaAtWhatWasAskedFor) {
    PlanWishes wishes = ram(8 * GiB);
    wishes.arena_bytes = 2 * GiB;
    const MemoryPlan plan = make_plan(two_classes(), some_fixed(), big_machine, wishes);
    expect_sound(two_classes(), plan);
    EXPECT_LE(plan.arena_bytes, 2 * GiB);
    EXPECT_GT(plan.arena_bytes, 2 * GiB - 2 * MiB);
}

TEST(Plan, RefusesAnArenaBelowOneTokensExpertsAndNamesTheSmallest) {
    PlanWishes wishes = ram(8 * GiB);
    wishes.arena_bytes = MiB;
    const Error error = refusal_of(two_classes(), some_fixed(), big_machine, wishes);
    EXPECT_EQ(error.kind(), ErrorKind::budget);
    const size_t at = error.remedy().find("--arena ");
    ASSERT_NE(at, std::string::npos) << error.what();
    wishes.arena_bytes = std::stoull(error.remedy().substr(at + 8)) * KiB;
    EXPECT_NO_THROW(make_plan(two_classes(), some_fixed(), big_machine, wishes));
}

TEST(Cache, IsExactlyTheShareThatWasAskedFor) {
    const ModelLayout layout = two_classes();
    for (const double share : {0.05, 0.10, 0.25, 0.5, 0.9, 1.0}) {
        PlanWishes wishes = ram(64 * GiB);
        wishes.cache_share = share;
        const MemoryPlan plan = make_plan(layout, some_fixed(), big_machine, wishes);
        expect_sound(layout, plan);
        EXPECT_LE(plan.arena_bytes, share * static_cast<double>(all_experts_of(layout)));
        EXPECT_NEAR(cached_share(layout, plan), share, 0.001);
    }
}

TEST(Passing, IsHeldByTheReserveAndMakesItLargerWhereItIsTooSmall) {
    const ModelLayout layout = two_classes();
    FixedBytes fixed = some_fixed();
    const MemoryPlan without = make_plan(layout, fixed, big_machine, ram(8 * GiB));
    ASSERT_EQ(without.reserve_bytes, 512 * MiB);
    fixed.passing = 384 * MiB; // and a quarter of the reserve may be gone
    EXPECT_EQ(make_plan(layout, fixed, big_machine, ram(8 * GiB)).slots, without.slots);
    fixed.passing = 400 * MiB;
    const MemoryPlan larger = make_plan(layout, fixed, big_machine, ram(8 * GiB));
    expect_sound(layout, larger);
    EXPECT_EQ(larger.reserve_bytes, 528 * MiB);
    EXPECT_LT(larger.arena_bytes, without.arena_bytes);
    EXPECT_EQ(make_plan(layout, fixed, big_machine, ram_and_reserve(8 * GiB, 0)).reserve_bytes, 400 * MiB);
    const uint64_t smallest = smallest_budget(layout, fixed, {});
    EXPECT_TRUE(works(layout, a_little_more(fixed), {}, smallest));
    EXPECT_FALSE(works(layout, a_little_more(fixed), {}, smallest - MiB));
}

TEST(Cache, NamesTheBudgetItTakesWhereNoneIsGiven) {
    const ModelLayout layout = two_classes();
    PlanWishes wishes;
    wishes.cache_share = 0.25;
    const MemoryPlan plan = make_plan(layout, some_fixed(), big_machine, wishes);
    expect_sound(layout, plan);
    EXPECT_EQ(plan.budget_source, "--cache");
    EXPECT_EQ(plan.budget_bytes, smallest_budget(layout, some_fixed(), wishes));
    EXPECT_TRUE(works(layout, a_little_more(some_fixed()), wishes, plan.budget_bytes));
    EXPECT_FALSE(works(layout, a_little_more(some_fixed()), wishes, plan.budget_bytes - MiB));
    EXPECT_EQ(make_plan(layout, some_fixed(), {plan.budget_bytes, "MemAvailable"}, wishes).slots, plan.slots);
    const Machine less = {plan.budget_bytes - plan.reserve_bytes, "MemAvailable"};
    EXPECT_EQ(refusal_of(layout, some_fixed(), less, wishes).kind(), ErrorKind::budget);
}

TEST(Cache, IsRefusedUnderABudgetThatDoesNotHoldAllOfIt) {
    const ModelLayout layout = two_classes();
    PlanWishes wishes = ram(4 * GiB);
    wishes.cache_share = 0.5;
    const Error error = refusal_of(layout, some_fixed(), big_machine, wishes);
    EXPECT_EQ(error.kind(), ErrorKind::budget);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("50 % of the experts (--cache)"), HasSubstr("lower --cache")));
    EXPECT_TRUE(works(layout, a_little_more(some_fixed()), wishes, named_budget(error)));
    EXPECT_FALSE(works(layout, a_little_more(some_fixed()), wishes, named_budget(error) - MiB));
}

TEST(Cache, IsRefusedBelowOneTokensExperts) {
    PlanWishes wishes = ram(64 * GiB);
    wishes.cache_share = 0.02;
    const Error error = refusal_of(two_classes(), some_fixed(), big_machine, wishes);
    EXPECT_EQ(error.kind(), ErrorKind::budget);
    EXPECT_EQ(error.remedy(), "use --cache 3.2% or more"); // 8 of 256 are 3.125 %
    wishes.cache_share = 0.032;
    EXPECT_NO_THROW(make_plan(two_classes(), some_fixed(), big_machine, wishes));
    wishes.cache_share = 0.031;
    EXPECT_THROW(make_plan(two_classes(), some_fixed(), big_machine, wishes), Error);
}

TEST(Cache, NamedAsTheLeastWorksForEveryCountOfExperts) {
    for (uint64_t used = 1; used <= 200; used++) {
        for (const uint64_t experts : {200U, 250U, 256U, 1000U}) {
            ModelLayout layout;
            layout.size_classes = {size_class(8192, experts, used)};
            PlanWishes wishes = ram(64 * GiB);
            wishes.cache_share = 1e-9;
            const std::string remedy = refusal_of(layout, {}, big_machine, wishes).remedy();
            wishes.cache_share = std::stod(remedy.substr(std::string("use --cache ").size())) / 100;
            ASSERT_NO_THROW(make_plan(layout, {}, big_machine, wishes)) << remedy;
        }
    }
}

TEST(Cache, IsNothingForADenseModel) {
    PlanWishes wishes = ram(8 * GiB);
    wishes.cache_share = 0.5;
    const MemoryPlan plan = make_plan({}, some_fixed(), big_machine, wishes);
    EXPECT_EQ(plan.arena_bytes, 0U);
    EXPECT_EQ(cached_share({}, plan), 1);
}

TEST(CachedShare, IsThatOfTheClassThatHasTheFewest) {
    ModelLayout layout;
    layout.size_classes = {size_class(8192, 4000, 160), size_class(12288, 4000, 40)};
    const MemoryPlan plan = make_plan(layout, {}, big_machine, ram_and_reserve(1000 * 8192 + 250 * 12288, 0));
    EXPECT_DOUBLE_EQ(cached_share(layout, plan), 250.0 / 4000);
}

TEST(Plan, ThatDoesNotFitSaysWhichLimitOfAddressesToRaise) {
    ModelLayout layout;
    layout.size_classes = {{1000, 4096, 100, 8}};
    const Machine machine = within_limits({1 * GiB, "MemAvailable"}, {64 * MiB, {}}, {44 * MiB, 0});
    PlanWishes wishes;
    const auto refusal = [&](uint64_t resident) -> std::string {
        try {
            make_plan(layout, {.resident = resident}, machine, wishes);
        } catch (const Error &error) {
            EXPECT_EQ(error.kind(), ErrorKind::budget);
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(refusal(10 * MiB), "");
    EXPECT_THAT(refusal(30 * MiB), HasSubstr("RLIMIT_DATA (ulimit -d)): raise 'ulimit -d' to "));
    wishes.budget_bytes = 30 * MiB;
    EXPECT_THAT(refusal(10 * MiB), HasSubstr("use --ram 20M or less, or raise 'ulimit -d' to 75776 or more"));
}

} // namespace larder

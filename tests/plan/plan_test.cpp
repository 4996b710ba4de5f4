#include "plan/plan.h"

#include "base/bytes.h"
#include "base/error.h"
#include "machine/address_limits.h"

#include <fmt/format.h>
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

// The shape of the 35B model: 40 layers of 256 experts, 8 used; small gate and up, large down in half of the layers.
ModelLayout two_classes() {
    ModelLayout layout;
    layout.size_classes = {size_class(589824 + 4096, 100 * 256, 100 * 8), size_class(860160 + 4096, 20 * 256, 20 * 8)};
    return layout;
}

FixedBytes some_fixed() { return {1577 * MiB + 12345, 80 * MiB, 300 * MiB + 7, 120 * MiB, 0}; }

PlanOptions ram(uint64_t budget) {
    PlanOptions options;
    options.budget_bytes = budget;
    return options;
}

PlanOptions ram_anyway(uint64_t budget) {
    PlanOptions options = ram(budget);
    options.overcommit = true;
    return options;
}

PlanOptions ram_and_reserve(uint64_t budget, uint64_t reserve) {
    PlanOptions options = ram(budget);
    options.reserve_bytes = reserve;
    return options;
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

// The error of a refused plan.
Error refusal_of(const ModelLayout &layout, const FixedBytes &fixed, const Machine &machine,
                 const PlanOptions &options) {
    try {
        make_plan(layout, fixed, machine, options);
    } catch (const Error &error) {
        return error;
    }
    ADD_FAILURE() << "not refused";
    return {ErrorKind::engine, "not refused"};
}

bool works(const ModelLayout &layout, const FixedBytes &fixed, PlanOptions options, uint64_t budget) {
    options.budget_bytes = budget;
    try {
        make_plan(layout, fixed, big_machine, options);
        return true;
    } catch (const Error &) {
        return false;
    }
}

// A slightly larger measurement. The budget named by the refusal must suffice for it too.
FixedBytes a_little_more(FixedBytes fixed) {
    fixed.overhead += 2 * MiB;
    return fixed;
}

// The sufficient budget that a refusal names.
uint64_t named_budget(const Error &error) {
    const Remedy *const larger = error.find_remedy(RemedyKind::larger_budget);
    return larger == nullptr ? 0 : larger->amount;
}

// Properties of every plan.
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
        PlanOptions options;
        if (round % 3 == 0) {
            options.reserve_bytes = random() % (3 * GiB);
        }
        options.budget_bytes = 1 * MiB;
        const Error error = refusal_of(layout, fixed, big_machine, options);
        const uint64_t smallest = named_budget(error);
        ASSERT_TRUE(works(layout, a_little_more(fixed), options, smallest))
            << "round " << round << ": " << error.what();
        ASSERT_FALSE(works(layout, a_little_more(fixed), options, smallest - MiB))
            << "round " << round << ": " << error.what();
        options.budget_bytes = smallest + random() % (30 * GiB);
        expect_sound(layout, make_plan(layout, fixed, big_machine, options));
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
    const PlanOptions options = ram_and_reserve(4 * GiB, 3 * GiB);
    EXPECT_THAT(refusal_of(two_classes(), some_fixed(), big_machine, options).remedy(), HasSubstr("lower --reserve"));
}

TEST(Plan, DoesNotAdviseABudgetThatTheMachineCannotGive) {
    const Machine small = {1 * GiB, "cgroup memory.max of /box"};
    const Error error = refusal_of(two_classes(), some_fixed(), small, {});
    EXPECT_THAT(error.what(), HasSubstr("1 GiB (cgroup memory.max of /box)"));
    const uint64_t smallest = smallest_budget(two_classes(), some_fixed(), {});
    EXPECT_THAT(error.message(),
                HasSubstr(fmt::format("the smallest budget that works, {}M, is more than the 1 GiB", smallest / MiB)));
    EXPECT_EQ(error.remedy(), "free some memory, or lower -c");
    EXPECT_EQ(error.find_remedy(RemedyKind::larger_budget), nullptr);
}

TEST(Plan, TakesWhatTheMachineGivesWithoutABudget) {
    const Machine machine = {6 * GiB, "MemAvailable"};
    const MemoryPlan plan = make_plan(two_classes(), some_fixed(), machine, {});
    expect_sound(two_classes(), plan);
    EXPECT_EQ(plan.budget_bytes, 6 * GiB);
    EXPECT_EQ(plan.budget_source, "MemAvailable");
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

TEST(Plan, RefusesABudgetAboveWhatTheMachineGives) {
    const Machine machine = {6 * GiB + 5, "cgroup memory.max of /box"};
    const Error error = refusal_of(two_classes(), some_fixed(), machine, ram(8 * GiB));
    EXPECT_EQ(error.kind(), ErrorKind::budget);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("8 GiB"), HasSubstr("6 GiB"), HasSubstr("cgroup memory.max of /box")));
    EXPECT_EQ(error.remedy(), "use --ram 6144M or less, or accept the risk with --overcommit");
    EXPECT_EQ(error.find_remedy(RemedyKind::smaller_budget)->amount, 6 * GiB + 5);
}

// The kernel's memory for the process is part of the reserve in force, even if that is larger than requested.
TEST(Plan, ToleratesAQuarterOfTheRaisedReserveAboveTheMachine) {
    FixedBytes fixed = some_fixed();
    fixed.transient = 8 * MiB;
    PlanOptions options = ram(8 * GiB);
    options.reserve_bytes = 0;
    EXPECT_NO_THROW(make_plan(two_classes(), fixed, {8 * GiB - 2 * MiB, "cgroup"}, options));
    EXPECT_THROW(make_plan(two_classes(), fixed, {8 * GiB - 2 * MiB - 1, "cgroup"}, options), Error);
}

TEST(Plan, AboveTheMachineAdvisesNoBudgetBelowTheSmallest) {
    const Machine small = {1 * GiB, "cgroup memory.max of /box"};
    const Error error = refusal_of(two_classes(), some_fixed(), small, ram(8 * GiB));
    EXPECT_THAT(error.message(), HasSubstr("a budget of 8 GiB is more than the 1 GiB that this process may use"));
    const uint64_t smallest = smallest_budget(two_classes(), some_fixed(), {});
    EXPECT_THAT(error.message(),
                HasSubstr(fmt::format("even the smallest budget that works, {}M, is more", smallest / MiB)));
    EXPECT_EQ(error.remedy(), "free some memory, or accept the risk with --overcommit, or lower -c");
    const Machine limited = {0, "RLIMIT_AS (ulimit -v)", "ulimit -v", 300 * MiB};
    EXPECT_THAT(refusal_of(two_classes(), some_fixed(), limited, ram(8 * GiB)).remedy(),
                "raise 'ulimit -v' to 8695808 or more, or lower -c");
}

TEST(Plan, AboveTheMachineAdvisesTheSmallestBudgetWhereTheMachineGivesJustThat) {
    const uint64_t smallest = smallest_budget(two_classes(), some_fixed(), {});
    const Machine just = {smallest - MiB, "MemAvailable"}; // the reserve may already be charged
    const Error error = refusal_of(two_classes(), some_fixed(), just, ram(8 * GiB));
    EXPECT_EQ(error.find_remedy(RemedyKind::smaller_budget)->amount, smallest);
    EXPECT_NO_THROW(make_plan(two_classes(), some_fixed(), just, ram(smallest)));
    EXPECT_THAT(error.remedy(), HasSubstr("M or less, or accept the risk with --overcommit"));
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

TEST(Plan, RefusesAnArenaBelowOneTokensExpertsAndNamesTheSmallest) {
    PlanOptions options = ram(8 * GiB);
    options.arena_bytes = MiB;
    const Error error = refusal_of(two_classes(), some_fixed(), big_machine, options);
    EXPECT_EQ(error.kind(), ErrorKind::budget);
    const Remedy *const arena = error.find_remedy(RemedyKind::arena);
    ASSERT_NE(arena, nullptr) << error.what();
    options.arena_bytes = arena->amount;
    EXPECT_EQ(error.remedy(), fmt::format("use --arena {}K or more", arena->amount / KiB));
    EXPECT_NO_THROW(make_plan(two_classes(), some_fixed(), big_machine, options));
}

TEST(Cache, IsExactlyTheShareThatWasAskedFor) {
    const ModelLayout layout = two_classes();
    for (const double share : {0.05, 0.10, 0.25, 0.5, 0.9, 1.0}) {
        PlanOptions options = ram(64 * GiB);
        options.cache_share = share;
        const MemoryPlan plan = make_plan(layout, some_fixed(), big_machine, options);
        expect_sound(layout, plan);
        EXPECT_LE(plan.arena_bytes, share * static_cast<double>(all_experts_of(layout)));
        EXPECT_NEAR(cached_share(layout, plan), share, 0.001);
    }
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

TEST(Cache, NamesTheBudgetItTakesWhereNoneIsGiven) {
    const ModelLayout layout = two_classes();
    PlanOptions options;
    options.cache_share = 0.25;
    const MemoryPlan plan = make_plan(layout, some_fixed(), big_machine, options);
    expect_sound(layout, plan);
    EXPECT_EQ(plan.budget_source, "--cache");
    EXPECT_EQ(plan.budget_bytes, smallest_budget(layout, some_fixed(), options));
    EXPECT_TRUE(works(layout, a_little_more(some_fixed()), options, plan.budget_bytes));
    EXPECT_FALSE(works(layout, a_little_more(some_fixed()), options, plan.budget_bytes - MiB));
    EXPECT_EQ(make_plan(layout, some_fixed(), {plan.budget_bytes, "MemAvailable"}, options).slots, plan.slots);
    const Machine less = {plan.budget_bytes - plan.reserve_bytes, "MemAvailable"};
    EXPECT_EQ(refusal_of(layout, some_fixed(), less, options).kind(), ErrorKind::budget);
}

TEST(Cache, IsRefusedUnderABudgetThatDoesNotHoldAllOfIt) {
    const ModelLayout layout = two_classes();
    PlanOptions options = ram(4 * GiB);
    options.cache_share = 0.5;
    const Error error = refusal_of(layout, some_fixed(), big_machine, options);
    EXPECT_EQ(error.kind(), ErrorKind::budget);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("50 % of the experts (--cache)"), HasSubstr("lower --cache")));
    EXPECT_TRUE(works(layout, a_little_more(some_fixed()), options, named_budget(error)));
    EXPECT_FALSE(works(layout, a_little_more(some_fixed()), options, named_budget(error) - MiB));
}

TEST(Cache, IsRefusedBelowOneTokensExperts) {
    PlanOptions options = ram(64 * GiB);
    options.cache_share = 0.02;
    const Error error = refusal_of(two_classes(), some_fixed(), big_machine, options);
    EXPECT_EQ(error.kind(), ErrorKind::budget);
    EXPECT_EQ(error.remedy(), "use --cache 3.2% or more"); // 8 of 256 experts are 3.125 %
    options.cache_share = 0.032;
    EXPECT_NO_THROW(make_plan(two_classes(), some_fixed(), big_machine, options));
    options.cache_share = 0.031;
    EXPECT_THROW(make_plan(two_classes(), some_fixed(), big_machine, options), Error);
}

TEST(Cache, NamedAsTheLeastWorksForEveryCountOfExperts) {
    for (uint64_t used = 1; used <= 200; used++) {
        for (const uint64_t experts : {200U, 250U, 256U, 1000U}) {
            ModelLayout layout;
            layout.size_classes = {size_class(8192, experts, used)};
            PlanOptions options = ram(64 * GiB);
            options.cache_share = 1e-9;
            const Error error = refusal_of(layout, {}, big_machine, options);
            const Remedy *const share = error.find_remedy(RemedyKind::cache_share);
            ASSERT_NE(share, nullptr) << error.what();
            options.cache_share = static_cast<double>(share->amount) / 10 / 100;
            ASSERT_NO_THROW(make_plan(layout, {}, big_machine, options)) << error.what();
        }
    }
}

TEST(Cache, IsNothingForADenseModel) {
    PlanOptions options = ram(8 * GiB);
    options.cache_share = 0.5;
    const MemoryPlan plan = make_plan({}, some_fixed(), big_machine, options);
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
    PlanOptions options;
    const auto refusal = [&](uint64_t resident) -> std::string {
        try {
            make_plan(layout, {.resident = resident}, machine, options);
        } catch (const Error &error) {
            EXPECT_EQ(error.kind(), ErrorKind::budget);
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(refusal(10 * MiB), "");
    EXPECT_THAT(refusal(30 * MiB), HasSubstr("RLIMIT_DATA (ulimit -d)); raise 'ulimit -d' to "));
    options.budget_bytes = 30 * MiB;
    EXPECT_THAT(refusal(10 * MiB), HasSubstr("use --ram 20M or less, or raise 'ulimit -d' to 75776 or more"));
}

} // namespace larder

// When a budget is refused, and what the refusal says.
#include "machine/address_limits.h"
#include "plan_fixture.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

namespace larder::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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

TEST(Plan, AcceptsABudgetAboveTheMachineWithOvercommit) {
    const Machine machine = {3 * GiB, "MemAvailable"};
    const MemoryPlan plan = make_plan(two_classes(), some_fixed(), machine, ram_anyway(8 * GiB));
    expect_sound(two_classes(), plan);
    EXPECT_EQ(plan.budget_bytes, 8 * GiB);
    EXPECT_THAT(refusal_of(two_classes(), some_fixed(), machine, ram_anyway(1 * GiB)).remedy(), HasSubstr("use --ram"));
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

} // namespace
} // namespace larder::test

// Plans by the share of experts that are cached.
#include "plan_fixture.h"

#include <gmock/gmock.h>

namespace larder::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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

} // namespace
} // namespace larder::test

// The ubatch that an engine uses. tests/plan tests the rule itself.
#include "base/bytes.h"
#include "support/model_fixture.h"

#include <gmock/gmock.h>
#include <malloc.h>

namespace larder::test {
namespace {

// Experts of 6 MiB. The compute buffers take 11 MiB with a ubatch of 512, and less than 1 MiB with 32.
TestOptions chosen_by_the_plan() {
    TestOptions options = attention_model().options();
    options.model.context.ctx_tokens = 4096;
    options.model.context.batch_tokens = 2048;
    options.model.context.ubatch_tokens = 0;
    options.model.kernels = Kernels::plain;
    options.runtime.plan.reserve_bytes = 0;
    options.runtime.plan.overcommit = true;
    options.runtime.plan.budget_bytes = GiB;
    return options;
}

TestOptions with_ubatch_of(TestOptions options, uint32_t ubatch_tokens) {
    options.model.context.ubatch_tokens = ubatch_tokens;
    return options;
}

// With a budget that leaves `bytes` beyond one token's experts if the ubatch is the smallest.
TestOptions with_little_more_than_the_floor(uint64_t bytes) {
    TestOptions options = chosen_by_the_plan();
    malloc_trim(0); // memory left by other tests would count as overhead now, and be gone in the next plan
    const MemoryPlan plan = plan_only(with_ubatch_of(options, 32)).memory;
    options.runtime.plan.budget_bytes =
        plan.budget_bytes - plan.spare_bytes - plan.arena_bytes + plan.floor_bytes + bytes;
    return options;
}

uint32_t planned(const TestOptions &options) { return plan_only(options).memory.ubatch_tokens; }

TEST(ChoiceOfUbatch, IsSmallerUnderASmallBudget) {
    EXPECT_EQ(planned(chosen_by_the_plan()), 512U);
    const TestOptions options = with_little_more_than_the_floor(3 * MiB);
    const MemoryPlan plan = plan_only(options).memory;
    EXPECT_LT(plan.ubatch_tokens, 512U);
    const MemoryPlan smallest = plan_only(with_ubatch_of(options, 32)).memory;
    EXPECT_GE(plan.arena_bytes, smallest.arena_bytes * 3 / 4) << "7/8, but each plan measures anew";
    EXPECT_GE(plan.fixed.compute, smallest.fixed.compute);
}

TEST(ChoiceOfUbatch, IsWhatTheEngineThenHas) {
    const TestOptions options = with_little_more_than_the_floor(3 * MiB);
    uint32_t ubatch_tokens = 0;
    const auto logits_with = [&](const TestOptions &wanted) {
        const auto model = open_as(wanted);
        ubatch_tokens = model->ubatch_tokens();
        EXPECT_EQ(ubatch_tokens, model->plan().ubatch_tokens);
        Session session(*model, greedy());
        EXPECT_TRUE(session.prefill(some_tokens(700, model->n_vocab()))); // more than one ubatch of any size
        return logits_of(session);
    };
    const std::vector<float> logits = logits_with(options);
    EXPECT_LT(ubatch_tokens, 512U);
    EXPECT_TRUE(same_bits(logits, logits_with(with_ubatch_of(chosen_by_the_plan(), ubatch_tokens))));
}

TEST(ChoiceOfUbatch, IsTheUsersWhereOneIsNamed) {
    EXPECT_EQ(planned(with_ubatch_of(with_little_more_than_the_floor(MiB), 48)), 48U);
    EXPECT_EQ(planned(with_ubatch_of(chosen_by_the_plan(), 32)), 32U);
    EXPECT_EQ(planned(with_ubatch_of(chosen_by_the_plan(), 1024)), 1024U);
    const TestOptions too_large = with_ubatch_of(with_little_more_than_the_floor(MiB), 512);
    EXPECT_EQ(error_of([&] { plan_only(too_large); }).kind(), ErrorKind::budget);
}

TEST(ChoiceOfUbatch, IsNotAboveTheContext) {
    TestOptions options = chosen_by_the_plan();
    options.model.context.ctx_tokens = 256;
    EXPECT_EQ(planned(options), 256U);
    options.model.context.ctx_tokens = 100; // is rounded up
    EXPECT_EQ(planned(options), 256U);
}

TEST(ChoiceOfUbatch, CountsTheLogitsOfAWholeUbatchWhereTheyAreKept) {
    TestOptions options = chosen_by_the_plan();
    options.model.context.logits_for_all = true;
    const PlannedRun run = plan_only(options);
    EXPECT_EQ(run.memory.ubatch_tokens, 512U);
    EXPECT_EQ(run.memory.fixed.compute, plan_only(with_ubatch_of(options, 512)).memory.fixed.compute);
    EXPECT_GT(run.memory.fixed.compute, plan_only(chosen_by_the_plan()).memory.fixed.compute);
}

TEST(ChoiceOfUbatch, OfStockIsLlamaCppsDefault) {
    TestOptions options = chosen_by_the_plan();
    options.residency = Residency::stock;
    EXPECT_EQ(open_as(options)->ubatch_tokens(), 512U);
    EXPECT_EQ(open_as(with_ubatch_of(options, 64))->ubatch_tokens(), 64U);
}

TEST(ChoiceOfUbatch, ABudgetThatARefusalNamesIsAccepted) {
    TestOptions options = with_little_more_than_the_floor(0);
    *options.runtime.plan.budget_bytes -= 8 * MiB;
    const Error error = error_of([&] { plan_only(options); });
    EXPECT_EQ(error.kind(), ErrorKind::budget);
    const Remedy *const larger = error.find_remedy(RemedyKind::larger_budget);
    ASSERT_NE(larger, nullptr) << error.what();
    options.runtime.plan.budget_bytes = larger->amount;
    const auto engine = open_as(options);
    EXPECT_EQ(engine->plan().budget_bytes, *options.runtime.plan.budget_bytes);
    EXPECT_LT(engine->ubatch_tokens(), 512U);
}

} // namespace
} // namespace larder::test

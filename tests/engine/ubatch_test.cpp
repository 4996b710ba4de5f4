// Which ubatch an engine takes; the rule itself is tested in tests/plan.
#include "base/bytes.h"
#include "engine_fixture.h"

#include <gmock/gmock.h>
#include <malloc.h>

namespace larder::test {
namespace {

// Experts of 6 MiB; compute buffers of 11 MiB with a ubatch of 512, of less than 1 MiB with 32.
EngineOptions chosen_by_the_plan() {
    EngineOptions options = attention_model().options();
    options.ctx_tokens = 4096;
    options.batch_tokens = 2048;
    options.ubatch_tokens = 0;
    options.kernels = Kernels::plain;
    options.plan.reserve_bytes = 0;
    options.plan.overcommit = true;
    options.plan.budget_bytes = GiB;
    return options;
}

EngineOptions with_ubatch_of(EngineOptions options, uint32_t ubatch_tokens) {
    options.ubatch_tokens = ubatch_tokens;
    return options;
}

// With a budget that leaves `bytes` beyond one token's experts if the ubatch is the smallest.
EngineOptions with_little_more_than_the_floor(uint64_t bytes) {
    EngineOptions options = chosen_by_the_plan();
    malloc_trim(0); // what other tests left would count as overhead now and be gone in the next plan
    const MemoryPlan plan = plan_only(with_ubatch_of(options, 32)).memory;
    options.plan.budget_bytes = plan.budget_bytes - plan.spare_bytes - plan.arena_bytes + plan.floor_bytes + bytes;
    return options;
}

uint32_t planned(const EngineOptions &options) { return plan_only(options).memory.ubatch_tokens; }

TEST(ChoiceOfUbatch, IsSmallerUnderASmallBudget) {
    EXPECT_EQ(planned(chosen_by_the_plan()), 512U);
    const EngineOptions options = with_little_more_than_the_floor(3 * MiB);
    const MemoryPlan plan = plan_only(options).memory;
    EXPECT_LT(plan.ubatch_tokens, 512U);
    const MemoryPlan smallest = plan_only(with_ubatch_of(options, 32)).memory;
    EXPECT_GE(plan.arena_bytes, smallest.arena_bytes * 3 / 4) << "7/8, but each plan measures anew";
    EXPECT_GE(plan.fixed.compute, smallest.fixed.compute);
}

TEST(ChoiceOfUbatch, IsWhatTheEngineThenHas) {
    const EngineOptions options = with_little_more_than_the_floor(3 * MiB);
    const auto engine = Engine::open(options);
    EXPECT_LT(engine->ubatch_tokens(), 512U);
    EXPECT_EQ(engine->ubatch_tokens(), engine->plan().ubatch_tokens);
    Session session(*engine, greedy());
    const std::vector<Token> prompt = some_tokens(700, engine->n_vocab()); // more than one of any size
    ASSERT_TRUE(session.prefill(prompt));

    const auto same = Engine::open(with_ubatch_of(chosen_by_the_plan(), engine->ubatch_tokens()));
    Session session_of_same(*same, greedy());
    ASSERT_TRUE(session_of_same.prefill(prompt));
    EXPECT_TRUE(same_bits(logits_of(session), logits_of(session_of_same)));
}

TEST(ChoiceOfUbatch, IsTheUsersWhereOneIsNamed) {
    EXPECT_EQ(planned(with_ubatch_of(with_little_more_than_the_floor(MiB), 48)), 48U);
    EXPECT_EQ(planned(with_ubatch_of(chosen_by_the_plan(), 32)), 32U);
    EXPECT_EQ(planned(with_ubatch_of(chosen_by_the_plan(), 1024)), 1024U);
    const EngineOptions too_large = with_ubatch_of(with_little_more_than_the_floor(MiB), 512);
    EXPECT_EQ(error_of([&] { plan_only(too_large); }).kind(), ErrorKind::budget);
}

TEST(ChoiceOfUbatch, IsNotAboveTheContext) {
    EngineOptions options = chosen_by_the_plan();
    options.ctx_tokens = 100;
    EXPECT_EQ(planned(options), 100U);
}

TEST(ChoiceOfUbatch, CountsTheLogitsOfAWholeUbatchWhereTheyAreKept) {
    EngineOptions options = chosen_by_the_plan();
    options.logits_for_all = true;
    const PlannedRun run = plan_only(options);
    EXPECT_EQ(run.memory.ubatch_tokens, 512U);
    EXPECT_EQ(run.memory.fixed.compute, plan_only(with_ubatch_of(options, 512)).memory.fixed.compute);
    EXPECT_GT(run.memory.fixed.compute, plan_only(chosen_by_the_plan()).memory.fixed.compute);
}

TEST(ChoiceOfUbatch, OfStockIsLlamaCppsDefault) {
    EngineOptions options = chosen_by_the_plan();
    options.residency = Residency::stock;
    EXPECT_EQ(Engine::open(options)->ubatch_tokens(), 512U);
    EXPECT_EQ(Engine::open(with_ubatch_of(options, 64))->ubatch_tokens(), 64U);
}

TEST(ChoiceOfUbatch, ABudgetThatARefusalNamesIsAccepted) {
    EngineOptions options = with_little_more_than_the_floor(0);
    *options.plan.budget_bytes -= 8 * MiB;
    const Error error = error_of([&] { plan_only(options); });
    EXPECT_EQ(error.kind(), ErrorKind::budget);
    const Remedy *const larger = error.find_remedy(RemedyKind::larger_budget);
    ASSERT_NE(larger, nullptr) << error.what();
    options.plan.budget_bytes = larger->amount;
    const auto engine = Engine::open(options);
    EXPECT_EQ(engine->plan().budget_bytes, *options.plan.budget_bytes);
    EXPECT_LT(engine->ubatch_tokens(), 512U);
}

} // namespace
} // namespace larder::test

// What larder's operation does beyond ggml's: ids that name no expert, and how much it reads and when.
#include "op_fixture.h"

namespace larder::test {
namespace {

constexpr int64_t experts = 16;
constexpr int64_t top_k = 4;

class Op : public testing::TestWithParam<int> {
  protected:
    static constexpr int64_t out = 200;
    static std::vector<ExpertSpec> up_gate_down(uint32_t layer) {
        return {{.out = 256, .layer = layer, .projection = Projection::up},
                {.out = 256, .layer = layer, .projection = Projection::gate},
                {.type = GGML_TYPE_Q6_K, .layer = layer, .projection = Projection::down}};
    }
};

TEST_P(Op, LeavesAZeroRowWhereAnIdIsNegative) {
    TwoSides sides(DiskModel({{.out = out}}, experts, top_k), {2});
    const Routing whole = route(50, top_k, experts);
    Routing holed = whole;
    for (size_t use = 0; use < holed.ids.size(); use += 3) {
        holed.ids[use] = -1;
    }
    OpGraph stock(sides.stock.all(), whole, true);
    OpGraph ours(sides.streamed.all(), holed, true);
    ASSERT_EQ(stock.run(1), GGML_STATUS_SUCCESS);
    ASSERT_EQ(ours.run(GetParam()), GGML_STATUS_SUCCESS);
    for (int64_t use = 0; use < whole.top_k * whole.tokens; use++) {
        const std::vector<float> row = row_of(ours.output(), use, out);
        if (use % 3 == 0) {
            ASSERT_TRUE(all_zero(row)) << "use " << use;
        } else {
            ASSERT_TRUE(same_bits(row_of(stock.output(), use, out), row)) << "use " << use;
        }
    }
}

TEST_P(Op, ReadsNothingAndGivesZeroWhenNoIdNamesAnExpert) {
    TwoSides sides(DiskModel({{.out = out}}, experts, top_k), {2});
    OpGraph ours(sides.streamed.all(), {top_k, 3, std::vector<int32_t>(3 * top_k, -1), top_k}, false);
    ASSERT_EQ(ours.run(GetParam()), GGML_STATUS_SUCCESS);
    EXPECT_TRUE(all_zero(ours.output()));
    EXPECT_EQ(sides.reader.disk.request_count(), 0U);
}

TEST_P(Op, ThatIsALayersFirstHasTheSlicesOfTheOthersReadToo) {
    TwoSides sides(DiskModel(up_gate_down(0), experts, top_k), {2 * experts, experts});
    const Routing routing = route(1, top_k, experts);
    OpGraph first({sides.streamed.all()[0]}, routing, false);
    ASSERT_EQ(first.run(GetParam()), GGML_STATUS_SUCCESS);
    EXPECT_EQ(sides.reader.disk.request_count(), uint64_t{3 * top_k});
    EXPECT_EQ(sides.reader.disk.submit_calls(), 1U) << "in one batch";
    EXPECT_EQ(sides.store.stats().expert_misses, uint64_t{top_k});

    OpGraph others({sides.streamed.all()[1], sides.streamed.all()[2]}, routing, false);
    ASSERT_EQ(others.run(GetParam()), GGML_STATUS_SUCCESS);
    EXPECT_EQ(sides.reader.disk.request_count(), uint64_t{3 * top_k});
    EXPECT_EQ(sides.store.stats().expert_hits + sides.store.stats().expert_misses, uint64_t{top_k})
        << "an expert of a layer is counted once, not once a projection";
}

TEST_P(Op, CountsAnExpertThatIsThereAsAHitInTheNextToken) {
    TwoSides sides(DiskModel(up_gate_down(0), experts, top_k), {2 * experts, experts});
    OpGraph token(sides.streamed.all(), route(1, top_k, experts), true);
    for (int round = 1; round <= 3; round++) {
        ASSERT_EQ(token.run(GetParam()), GGML_STATUS_SUCCESS);
        EXPECT_EQ(sides.store.stats().expert_misses, uint64_t{top_k});
        EXPECT_EQ(sides.store.stats().expert_hits, static_cast<uint64_t>((round - 1) * top_k));
        EXPECT_EQ(sides.store.stats().slice_reads, uint64_t{3 * top_k});
    }
}

TEST_P(Op, OfManyTokensReadsEachSliceOnceThroughOneSlot) {
    TwoSides sides(DiskModel({{.out = out}}, experts, top_k), {1});
    const Routing routing = route(200, top_k, experts);
    OpGraph ours(sides.streamed.all(), routing, false);
    ASSERT_EQ(ours.run(GetParam()), GGML_STATUS_SUCCESS);
    EXPECT_EQ(sides.store.stats().slice_reads, routing.distinct());
    EXPECT_EQ(sides.store.stats().expert_misses, routing.distinct());
}

INSTANTIATE_TEST_SUITE_P(Threads, Op, testing::ValuesIn(thread_counts()),
                         [](const auto &of) { return std::to_string(of.param); });

} // namespace
} // namespace larder::test

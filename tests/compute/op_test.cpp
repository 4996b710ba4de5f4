// What the op does beyond ggml's own: ids that mean no expert, reads that fail, and how much it reads and when.
#include "op_fixture.h"

namespace larder::test {
namespace {

constexpr int64_t experts = 16;
constexpr int64_t top_k = 4;

std::vector<float> row_of(const std::vector<float> &output, int64_t use, int64_t out) {
    return {output.begin() + use * out, output.begin() + (use + 1) * out};
}

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

TEST_P(Op, IsAllZeroAfterAFailedReadAndRightAgainOnceTheErrorIsTaken) {
    for (const uint64_t slots : {1, 4, 16}) {
        SCOPED_TRACE(fmt::format("{} slots", slots));
        TwoSides sides(DiskModel({{.out = out}}, experts, top_k), {slots});
        const Routing routing = route(50, top_k, experts);
        OpGraph stock(sides.stock.all(), routing, false);
        OpGraph ours(sides.streamed.all(), routing, false);
        ASSERT_EQ(stock.run(1), GGML_STATUS_SUCCESS);
        EXPECT_FALSE(ExpertBinding::abort_requested(&sides.binding));

        const Extent slice = sides.model.layout.slice_extent(sides.model.layout.expert_tensors[0], 11);
        sides.reader.disk.fail_range(0, slice.offset + slice.bytes / 2, 1, EIO);
        ASSERT_EQ(ours.run(GetParam()), GGML_STATUS_SUCCESS) << "an op has no way to fail";
        EXPECT_TRUE(all_zero(ours.output()));
        EXPECT_TRUE(sides.store.failed());
        EXPECT_TRUE(ExpertBinding::abort_requested(&sides.binding));
        EXPECT_GE(sides.store.stats().read_errors, 1U);

        sides.reader.disk.heal();
        const std::optional<Error> error = sides.store.take_error();
        ASSERT_TRUE(error.has_value());
        EXPECT_EQ(error->kind(), ErrorKind::io);
        EXPECT_FALSE(ExpertBinding::abort_requested(&sides.binding));
        ASSERT_EQ(ours.run(GetParam()), GGML_STATUS_SUCCESS);
        EXPECT_TRUE(same_bits(stock.output(), ours.output()));
    }
}

TEST_P(Op, ThatFailsEndsTheGraphThroughTheAbortCallback) {
    TwoSides sides(DiskModel({{.out = 256, .layer = 0}, {.out = 256, .layer = 1}}, experts, top_k), {2 * experts});
    sides.reader.disk.fail_request(0, EIO);
    OpGraph ours(sides.streamed.all(), route(9, top_k, experts), false);
    EXPECT_EQ(ours.run(GetParam(), ExpertBinding::abort_requested, &sides.binding), GGML_STATUS_ABORTED);
    const Extent second = sides.model.layout.tensors[1].extent;
    for (const ReadRequest &request : sides.reader.disk.requests()) {
        EXPECT_LT(request.offset, second.offset) << "the next layer was run";
    }
    ASSERT_TRUE(sides.store.take_error().has_value());
    EXPECT_EQ(ours.run(GetParam(), ExpertBinding::abort_requested, &sides.binding), GGML_STATUS_SUCCESS);
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

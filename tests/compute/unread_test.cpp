// Experts that cannot be read: which rows of an operation are zero, which are unchanged, and what is reported.
#include "op_fixture.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <set>
#include <thread>

namespace larder::test {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr int64_t experts = 16;
constexpr int64_t top_k = 4;

struct Report {
    std::vector<int32_t> tokens;
    int64_t n_token = 0;
};

// Both sides, and the reports of the operations.
class Unread {
  public:
    Unread(DiskModel model, const std::vector<uint64_t> &slots, Kernels kernels = Kernels::plain)
        : sides(std::move(model), slots, kernels, [this](std::span<const int32_t> tokens, int64_t n_token) {
              reports.push_back({{tokens.begin(), tokens.end()}, n_token});
          }) {}

    // Makes reads of the expert's slice in this tensor fail.
    void fail(size_t tensor, uint32_t expert) {
        const Extent slice = sides.model.layout.slice_extent(sides.model.layout.expert_tensors[tensor], expert);
        sides.reader.disk.fail_range(0, slice.offset + slice.bytes / 2, 1, EIO);
    }

    std::vector<Report> reports;
    TwoSides sides;
};

// The tokens whose rows of `output` are zero. All other rows must have the bits of `whole`.
std::vector<int32_t> zero_tokens(const std::vector<float> &whole, const std::vector<float> &output,
                                 const Routing &routing) {
    std::set<int32_t> tokens;
    const auto uses = routing.top_k * routing.tokens;
    const auto out = static_cast<int64_t>(output.size()) / uses;
    for (int64_t use = 0; use < uses; use++) {
        const std::vector<float> row = row_of(output, use, out);
        if (all_zero(row)) {
            tokens.insert(static_cast<int32_t>(use / routing.top_k));
        } else {
            EXPECT_TRUE(same_bits(row_of(whole, use, out), row)) << "use " << use;
        }
    }
    return {tokens.begin(), tokens.end()};
}

// The tokens routed to the expert.
std::vector<int32_t> tokens_of(const Routing &routing, int32_t expert) {
    std::set<int32_t> tokens;
    for (size_t use = 0; use < routing.ids.size(); use++) {
        if (routing.ids[use] == expert) {
            tokens.insert(static_cast<int32_t>(use / static_cast<size_t>(routing.top_k)));
        }
    }
    return {tokens.begin(), tokens.end()};
}

struct Path {
    const char *name;
    ggml_type type;
    Kernels kernels;
};

class UnreadExpert : public testing::TestWithParam<Path> {};

TEST_P(UnreadExpert, SpoilsTheRowsOfItsTokensAndNoOthers) {
    constexpr int32_t failing = 11;
    for (const int64_t tokens : {1, 60}) { // 60 tokens: enough for the panel kernel and gemm
        Routing routing = route(tokens, top_k, experts);
        if (tokens == 1) {
            routing.ids = {3, failing, 0, 7};
        }
        for (const uint64_t slots : {1, 4, 16}) {
            SCOPED_TRACE(fmt::format("{} tokens, {} slots", tokens, slots));
            Unread unread(DiskModel({{.type = GetParam().type, .in = 512, .out = 136}}, experts, top_k), {slots},
                          GetParam().kernels);
            OpGraph ours(unread.sides.streamed.all(), routing, false);
            ASSERT_EQ(ours.run(1), GGML_STATUS_SUCCESS);
            const std::vector<float> whole = ours.output();
            ASSERT_TRUE(unread.reports.empty());
            if (GetParam().kernels != Kernels::fast) {
                OpGraph stock(unread.sides.stock.all(), routing, false);
                ASSERT_EQ(stock.run(1), GGML_STATUS_SUCCESS);
                ASSERT_TRUE(same_bits(stock.output(), whole));
            }
            for (const int threads : thread_counts()) {
                SCOPED_TRACE(fmt::format("{} threads", threads));
                unread.sides.store.resize(std::vector<uint64_t>{1}); // so that most slices are read again
                OpGraph other(unread.sides.streamed.all(), Routing{1, 1, {5}, 1}, false);
                ASSERT_EQ(other.run(1), GGML_STATUS_SUCCESS); // so that the remaining slice is not the failing one
                unread.sides.store.resize(std::vector<uint64_t>{slots});
                unread.fail(0, failing);
                ASSERT_EQ(ours.run(threads), GGML_STATUS_SUCCESS) << "an op has no way to fail";
                EXPECT_THAT(zero_tokens(whole, ours.output(), routing), ElementsAreArray(tokens_of(routing, failing)));
                ASSERT_EQ(unread.reports.size(), 1U);
                EXPECT_THAT(unread.reports[0].tokens, ElementsAreArray(tokens_of(routing, failing)));
                EXPECT_EQ(unread.reports[0].n_token, tokens);
                EXPECT_FALSE(ExpertBinding::abort_requested(&unread.sides.binding)) << "the caller decides";

                unread.sides.reader.disk.heal();
                unread.reports.clear();
                const std::optional<Error> error = unread.sides.binding.take_error();
                ASSERT_TRUE(error.has_value());
                EXPECT_EQ(error->kind(), ErrorKind::io);
                EXPECT_THAT(error->message(), HasSubstr("expert 11"));
                ASSERT_EQ(ours.run(threads), GGML_STATUS_SUCCESS);
                EXPECT_TRUE(same_bits(whole, ours.output()));
                EXPECT_TRUE(unread.reports.empty());
                EXPECT_FALSE(unread.sides.binding.take_error().has_value());
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Paths, UnreadExpert,
                         testing::Values(Path{"plain", GGML_TYPE_Q6_K, Kernels::plain},
                                         Path{"panel", GGML_TYPE_IQ2_XS, Kernels::plain},
                                         Path{"repacked", GGML_TYPE_Q4_K, Kernels::repacked},
                                         Path{"gemm", GGML_TYPE_Q4_K, Kernels::fast}),
                         [](const auto &of) { return of.param.name; });

// Whichever read of a layer fails, the operations report exactly the tokens whose rows are zero.
TEST(Unread, IsReportedForEveryReadOfAStep) {
    const std::vector<ExpertSpec> layer = {
        {.type = GGML_TYPE_Q4_K, .in = 256, .out = 64, .projection = Projection::up},
        {.type = GGML_TYPE_Q4_K, .in = 256, .out = 64, .projection = Projection::gate},
        {.type = GGML_TYPE_Q6_K, .in = 256, .out = 64, .projection = Projection::down},
    };
    for (const int64_t tokens : {1, 6}) {
        const Routing routing = route(tokens, top_k, experts);
        for (const uint64_t slots : {1, 32}) {
            Unread all(DiskModel(layer, experts, top_k), {slots, slots}, Kernels::repacked);
            OpGraph graph(all.sides.streamed.all(), routing, true);
            ASSERT_EQ(graph.run(1), GGML_STATUS_SUCCESS);
            const uint64_t reads = all.sides.reader.disk.request_count();
            ASSERT_EQ(reads, 3 * routing.distinct());
            uint64_t spoiled = 0;
            for (uint64_t failing = 0; failing < reads; failing++) {
                const int threads = thread_counts()[failing % thread_counts().size()];
                SCOPED_TRACE(fmt::format("{} tokens, {} slots, read {}, {} threads", tokens, slots, failing, threads));
                Unread unread(DiskModel(layer, experts, top_k), {slots, slots}, Kernels::repacked);
                unread.sides.reader.disk.fail_request(failing, EIO);
                OpGraph ours(unread.sides.streamed.all(), routing, true);
                ASSERT_EQ(ours.run(threads), GGML_STATUS_SUCCESS);
                std::vector<int32_t> zero;
                for (size_t op = 0; op < layer.size(); op++) {
                    const std::vector<int32_t> of_op = zero_tokens(graph.output(op), ours.output(op), routing);
                    zero.insert(zero.end(), of_op.begin(), of_op.end());
                }
                std::vector<int32_t> reported;
                for (const Report &report : unread.reports) {
                    EXPECT_EQ(report.n_token, tokens);
                    reported.insert(reported.end(), report.tokens.begin(), report.tokens.end());
                }
                EXPECT_THAT(reported, ElementsAreArray(zero));
                EXPECT_EQ(unread.sides.binding.take_error().has_value(), !zero.empty());
                spoiled += zero.empty() ? 0 : 1;
            }
            // A slice whose read ahead failed is read again when its operation needs it.
            EXPECT_EQ(spoiled, slots == 1 ? reads : routing.distinct());
        }
    }
}

TEST(Unread, ExpertsOfSeveralFailedReadsAreReportedTogether) {
    Unread unread(DiskModel({{}}, experts, top_k), {experts});
    const Routing routing{2, 5, {0, 1, 2, 3, 4, 0, 5, 6, 2, 7}, 2};
    OpGraph stock(unread.sides.stock.all(), routing, false);
    ASSERT_EQ(stock.run(1), GGML_STATUS_SUCCESS);
    unread.fail(0, 0);
    unread.fail(0, 2);
    unread.fail(0, 3);
    OpGraph ours(unread.sides.streamed.all(), routing, false);
    ASSERT_EQ(ours.run(thread_counts().back()), GGML_STATUS_SUCCESS);
    ASSERT_EQ(unread.reports.size(), 1U);
    EXPECT_THAT(unread.reports[0].tokens, testing::ElementsAre(0, 1, 2, 4));
    EXPECT_THAT(zero_tokens(stock.output(), ours.output(), routing), testing::ElementsAre(0, 1, 2, 4));
}

// --- ids that name no expert ---

TEST(Unread, AnIdBeyondTheExpertsIsAnErrorOfTheFile) {
    for (const int threads : thread_counts()) {
        Unread unread(DiskModel({{.layer = 3}}, experts, top_k), {4});
        const Routing whole = route(20, top_k, experts);
        Routing routing = whole;
        routing.ids[9] = 300;         // token 2
        routing.ids[4 * 13 + 1] = 16; // token 13, the first id that is too high
        routing.ids[4 * 13 + 2] = -1; // no expert
        routing.ids[4 * 17] = INT32_MAX;
        routing.ids[4 * 19 + 3] = -1;
        OpGraph stock(unread.sides.stock.all(), whole, true);
        ASSERT_EQ(stock.run(1), GGML_STATUS_SUCCESS);
        OpGraph ours(unread.sides.streamed.all(), routing, true);
        ASSERT_EQ(ours.run(threads), GGML_STATUS_SUCCESS);
        EXPECT_THAT(zero_tokens(stock.output(), ours.output(), routing), testing::ElementsAre(2, 13, 17, 19));
        ASSERT_EQ(unread.reports.size(), 1U);
        EXPECT_THAT(unread.reports[0].tokens, testing::ElementsAre(2, 13, 17));
        EXPECT_EQ(unread.reports[0].n_token, 20);

        EXPECT_FALSE(unread.sides.store.failed());
        const std::optional<Error> error = unread.sides.binding.take_error();
        ASSERT_TRUE(error.has_value());
        EXPECT_EQ(error->kind(), ErrorKind::model);
        EXPECT_THAT(error->message(), HasSubstr("routing table names expert 300 of 16 in layer 3"));
        EXPECT_THAT(error->message(), HasSubstr("experts.gguf"));
        EXPECT_FALSE(error->remedy().empty());
        EXPECT_FALSE(unread.sides.binding.take_error().has_value());
    }
}

TEST(Unread, ARouteWithABadIdIsToldWithoutIt) {
    DiskModel model({{}}, experts, top_k);
    ImageReader reader(model.image);
    ExpertStore store(model.layout, std::vector<uint64_t>{4}, reader);
    std::vector<int32_t> told;
    ExpertBinding binding(
        model.layout, store, Kernels::plain,
        [&](uint32_t, uint32_t, std::span<const int32_t> chosen) { told.assign(chosen.begin(), chosen.end()); });
    const LoadedTensors streamed(model, expert_buffer_type());
    ASSERT_TRUE(binding.bind(streamed.all().front()));
    OpGraph ours(streamed.all(), {2, 2, {3, 16, -7, 0}, 2}, false);
    ASSERT_EQ(ours.run(1), GGML_STATUS_SUCCESS);
    EXPECT_THAT(told, testing::ElementsAre(3, -1, -1, 0));
}

// --- the end of a graph ---

TEST(Unread, EndsTheGraphWhereNobodyWantsTheReport) {
    for (const int threads : thread_counts()) {
        TwoSides sides(
            DiskModel({{.out = 64, .layer = 0}, {.out = 64, .layer = 1}, {.out = 64, .layer = 2}}, experts, top_k),
            {3 * experts});
        sides.reader.disk.fail_request(0, EIO);
        OpGraph ours(sides.streamed.all(), route(9, top_k, experts), false);
        EXPECT_EQ(ours.run(threads, ExpertBinding::abort_requested, &sides.binding), GGML_STATUS_ABORTED);
        const Extent last = sides.model.layout.tensors[2].extent;
        for (const ReadRequest &request : sides.reader.disk.requests()) {
            EXPECT_LT(request.offset + request.bytes, last.offset + direct_io_alignment) << "the last layer was run";
        }
        EXPECT_TRUE(ExpertBinding::abort_requested(&sides.binding)) << "until it is cleared";
        ASSERT_TRUE(sides.binding.take_error().has_value());
        sides.binding.clear_abort();
        EXPECT_EQ(ours.run(threads, ExpertBinding::abort_requested, &sides.binding), GGML_STATUS_SUCCESS);
    }
}

TEST(Unread, AnOpThatBeginsAfterAnAbortReadsNothingAndReportsAllItsTokens) {
    Unread unread(DiskModel({{}}, experts, top_k), {experts});
    OpGraph ours(unread.sides.streamed.all(), route(3, top_k, experts), false);
    unread.sides.binding.request_abort();
    ASSERT_EQ(ours.run(thread_counts().back()), GGML_STATUS_SUCCESS);
    EXPECT_TRUE(all_zero(ours.output()));
    EXPECT_EQ(unread.sides.reader.disk.request_count(), 0U);
    ASSERT_EQ(unread.reports.size(), 1U);
    EXPECT_THAT(unread.reports[0].tokens, testing::ElementsAre(0, 1, 2));
    EXPECT_FALSE(unread.sides.binding.take_error().has_value());

    unread.sides.binding.clear_abort();
    ASSERT_EQ(ours.run(1), GGML_STATUS_SUCCESS);
    EXPECT_EQ(unread.reports.size(), 1U);
    EXPECT_FALSE(all_zero(ours.output()));
}

TEST(Unread, AStopReachesAnOpThatWaitsForTheDisk) {
    const Routing routing = route(20, top_k, experts);
    for (const int threads : thread_counts()) {
        for (const uint64_t read : {0, 1, 5}) {
            SCOPED_TRACE(fmt::format("{} threads, {} slices read", threads, read));
            Unread unread(DiskModel({{.in = 512, .out = 136}, {.in = 512, .out = 136, .layer = 1}}, experts, top_k),
                          {8}, Kernels::repacked);
            TwoSides &sides = unread.sides;
            OpGraph stock(sides.stock.all(), routing, false);
            ASSERT_EQ(stock.run(1), GGML_STATUS_SUCCESS);
            OpGraph ours(sides.streamed.all(), routing, false);
            sides.reader.disk.hold();
            sides.reader.disk.let(read);
            ggml_status status = GGML_STATUS_SUCCESS;
            std::thread graph([&] { status = ours.run(threads, ExpertBinding::abort_requested, &sides.binding); });
            while (sides.reader.disk.waiting() == 0 || sides.store.stats().slice_reads < read) {
                std::this_thread::yield();
            }
            sides.store.request_stop();
            graph.join();
            EXPECT_EQ(status, GGML_STATUS_ABORTED);
            ASSERT_FALSE(unread.reports.empty());
            EXPECT_THAT(unread.reports[0].tokens,
                        ElementsAreArray(zero_tokens(stock.output(), ours.output(), routing)));
            EXPECT_FALSE(sides.binding.take_error().has_value());

            sides.store.clear_stop();
            sides.reader.disk.resume();
            for (int round = 0; round < 2; round++) { // each slice is repacked completely or not at all
                ASSERT_EQ(ours.run(threads, ExpertBinding::abort_requested, &sides.binding), GGML_STATUS_SUCCESS);
                EXPECT_TRUE(same_bits(stock.output(0), ours.output(0)));
                EXPECT_TRUE(same_bits(stock.output(1), ours.output(1)));
            }
        }
    }
}

} // namespace
} // namespace larder::test

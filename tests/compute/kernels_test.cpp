// The repacked kernels: larder's operation on slices repacked in their slots, against ggml's operation on its repack
// buffer. gemm, which ggml does not have, is compared with it within an error bound.
#include "compute/interleaved.h"
#include "op_fixture.h"

#include <array>
#include <cmath>

namespace larder::test {
namespace {

constexpr int64_t experts = 16;
constexpr int64_t top_k = 4;

// Types that ggml repacks on some CPU, and two that it repacks on none.
constexpr std::array compared_types = {GGML_TYPE_Q4_0, GGML_TYPE_Q4_K, GGML_TYPE_IQ4_NL, GGML_TYPE_MXFP4,
                                       GGML_TYPE_Q8_0, GGML_TYPE_Q1_0, GGML_TYPE_Q2_K,   GGML_TYPE_Q5_K,
                                       GGML_TYPE_Q6_K, GGML_TYPE_F16,  GGML_TYPE_IQ2_XS};

// The first of these types that ggml repacks here (or does not, if `repacked` is false); `otherwise` if there is none.
ggml_type first_type(bool repacked, ggml_type otherwise) {
    const auto *const found = std::ranges::find_if(
        compared_types, [&](ggml_type type) { return stock_repacks(type, 256, 256, experts) == repacked; });
    return found == compared_types.end() ? otherwise : *found;
}

void compare(TwoSides &sides, const Routing &routing, bool input_per_use) {
    OpGraph stock(sides.stock.all(), routing, input_per_use);
    ASSERT_EQ(stock.run(1), GGML_STATUS_SUCCESS);
    ASSERT_FALSE(all_zero(stock.output()));
    OpGraph ours(sides.streamed.all(), routing, input_per_use);
    for (const int threads : thread_counts()) {
        SCOPED_TRACE(fmt::format("{} threads", threads));
        ASSERT_EQ(ours.run(threads), GGML_STATUS_SUCCESS);
        for (size_t i = 0; i < sides.model.specs().size(); i++) {
            ASSERT_TRUE(same_bits(stock.output(i), ours.output(i))) << "op " << i;
        }
    }
}

TwoSides one_tensor(const ExpertSpec &spec, uint64_t slots, Kernels kernels = Kernels::repacked) {
    return {DiskModel({spec}, experts, top_k), {slots}, kernels};
}

class RepackedKernels : public testing::TestWithParam<ggml_type> {};

// The first graph repacks the slices. The later ones find them repacked.
TEST_P(RepackedKernels, GiveTheBitsOfStocksRepackBuffer) {
    for (const int64_t tokens : {1, 5, 120}) {
        for (const bool input_per_use : {false, true}) {
            SCOPED_TRACE(fmt::format("{} tokens, input {}", tokens, input_per_use ? "per use" : "shared"));
            TwoSides sides = one_tensor({.type = GetParam(), .in = 512}, experts);
            const Routing routing = route(tokens, top_k, experts);
            compare(sides, routing, input_per_use);
            EXPECT_EQ(sides.store.stats().slice_reads, routing.distinct()) << "each is repacked once";
        }
    }
}

TEST_P(RepackedKernels, GiveThemThroughOneSlotAndAFew) {
    for (const uint64_t slots : {1, 3}) {
        TwoSides sides = one_tensor({.type = GetParam(), .in = 512, .out = 72}, slots);
        compare(sides, route(30, top_k, experts), false);
        EXPECT_GT(sides.store.stats().evictions, 0U);
    }
}

TEST_P(RepackedKernels, LeaveRowsPlainThatFillNoGroup) {
    for (const int64_t out : {1, 12, 63, 65}) {
        SCOPED_TRACE(fmt::format("{} rows", out));
        if (stock_repacks(GetParam(), 256, out, experts)) {
            continue; // only in groups of four on this CPU
        }
        TwoSides sides = one_tensor({.type = GetParam(), .out = out}, top_k);
        compare(sides, route(20, top_k, experts), false);
    }
}

TEST_P(RepackedKernels, TakeRowCountsThatFillNoChunk) {
    for (const int64_t out : {8, 16, 24, 64, 136}) {
        SCOPED_TRACE(fmt::format("{} rows", out));
        TwoSides sides = one_tensor({.type = GetParam(), .out = out}, top_k);
        compare(sides, route(20, top_k, experts), true);
    }
}

INSTANTIATE_TEST_SUITE_P(Weights, RepackedKernels, testing::ValuesIn(compared_types),
                         [](const auto &of) { return std::string(ggml_type_name(of.param)); });

// Checks two things in ggml: which multiplications its repack buffer supports, and which tensors it has a layout for.
TEST(RepackedKernels, AreFoundForEveryTypeThatStockRepacks) {
    for (int i = 0; i < GGML_TYPE_COUNT; i++) {
        const auto type = static_cast<ggml_type>(i);
        if (ggml_blck_size(type) == 0 || ggml_get_type_traits_cpu(type)->vec_dot == nullptr) {
            continue; // a removed type
        }
        SCOPED_TRACE(ggml_type_name(type));
        const bool repacked = stock_repacks(type, 512, 64, experts);
        EXPECT_EQ(repack_traits_of(type, 512, 64) != nullptr, repacked);
        EXPECT_EQ(stock_buffer_type_of_experts(type, 512, 64, experts, top_k) == repack_buffer_type(), repacked);
        EXPECT_EQ(find_repacked_kernel(type) != nullptr, repacked);
        EXPECT_TRUE(!repacked || std::ranges::find(compared_types, type) != compared_types.end()) << "is not compared";
    }
}

TEST(RepackedKernels, OtherBitsThanPlainOnes) {
    size_t n_repacked = 0;
    size_t n_other = 0;
    for (const ggml_type type : compared_types) {
        if (!stock_repacks(type, 512, 200, experts)) {
            continue;
        }
        TwoSides plain = one_tensor({.type = type, .in = 512}, experts, Kernels::plain);
        TwoSides repacked = one_tensor({.type = type, .in = 512}, experts);
        OpGraph one(plain.streamed.all(), route(20, top_k, experts), false);
        OpGraph other(repacked.streamed.all(), route(20, top_k, experts), false);
        ASSERT_EQ(one.run(1), GGML_STATUS_SUCCESS);
        ASSERT_EQ(other.run(1), GGML_STATUS_SUCCESS);
        n_repacked++;
        n_other += same_bits(one.output(), other.output()) ? 0 : 1;
    }
    if (n_repacked == 0) {
        GTEST_SKIP() << "ggml repacks no type on this CPU";
    }
    EXPECT_GT(n_other, 0U) << "or the comparisons above compare nothing new";
}

// A slice that was not read must not be marked as repacked: the next graph reads it plain.
TEST(RepackedKernels, SurviveAFailedRead) {
    TwoSides sides = one_tensor({.in = 512}, 3);
    const Routing routing = route(30, top_k, experts);
    OpGraph ours(sides.streamed.all(), routing, false);
    const ggml_abort_callback stop = ExpertBinding::abort_requested;
    sides.reader.disk.fail_request(5, EIO);
    ours.run(1, stop, &sides.binding);
    ASSERT_TRUE(sides.binding.take_error().has_value());
    sides.binding.clear_abort();
    compare(sides, routing, false);
}

TEST(RepackedKernels, RepackALayersThreeTensorsEachItsOwnWay) {
    const ggml_type repacked = first_type(true, GGML_TYPE_Q4_K);
    const ggml_type plain = first_type(false, GGML_TYPE_Q6_K);
    const std::vector<ExpertSpec> layer = {
        {.type = repacked, .in = 256, .out = 256, .projection = Projection::up},
        {.type = repacked, .in = 256, .out = 250, .projection = Projection::gate}, // 250 rows do not fill all groups
        {.type = plain, .in = 256, .out = 256, .projection = Projection::down},
    };
    for (const uint64_t few : {1, 8, 48}) {
        SCOPED_TRACE(fmt::format("{} slots of each class", few));
        DiskModel model(layer, experts, top_k);
        const std::vector<uint64_t> slots(model.layout.size_classes.size(), few);
        TwoSides sides(std::move(model), slots, Kernels::repacked);
        compare(sides, route(1, top_k, experts), true);
        compare(sides, route(64, top_k, experts), true);
    }
}

class FastKernels : public testing::TestWithParam<ggml_type> {};

TEST_P(FastKernels, StayCloseToStocksRepackBuffer) {
    for (const int64_t tokens : {1, 7, 120}) {
        for (const bool input_per_use : {false, true}) {
            SCOPED_TRACE(fmt::format("{} tokens, input {}", tokens, input_per_use ? "per use" : "shared"));
            const Routing routing = route(tokens, top_k, experts);
            TwoSides sides = one_tensor({.type = GetParam(), .in = 512}, 3, Kernels::fast);
            OpGraph stock(sides.stock.all(), routing, input_per_use);
            ASSERT_EQ(stock.run(1), GGML_STATUS_SUCCESS);
            const std::vector<float> theirs = stock.output();
            double square = 0;
            for (const float value : theirs) {
                square += static_cast<double>(value) * value;
            }
            const double rms = std::sqrt(square / static_cast<double>(theirs.size()));
            OpGraph ours(sides.streamed.all(), routing, input_per_use);
            for (const int threads : thread_counts()) {
                ASSERT_EQ(ours.run(threads), GGML_STATUS_SUCCESS);
                const std::vector<float> values = ours.output();
                for (size_t i = 0; i < theirs.size(); i++) {
                    ASSERT_NEAR(values[i], theirs[i], 1e-4 * rms) << "element " << i << ", " << threads << " threads";
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Weights, FastKernels, testing::ValuesIn(compared_types),
                         [](const auto &of) { return std::string(ggml_type_name(of.param)); });

} // namespace
} // namespace larder::test

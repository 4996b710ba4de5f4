// larder's operation against ggml's: the same graph on the same weights must give the same bits, for all types, shapes,
// routings, and numbers of threads and slots.
#include "base/unique_fd.h"
#include "op_fixture.h"

#include <iqp.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace larder::test {
namespace {

constexpr int64_t experts = 16;
constexpr int64_t top_k = 4;

constexpr std::array compared_types = {GGML_TYPE_F32,   GGML_TYPE_F16,   GGML_TYPE_BF16,   GGML_TYPE_Q8_0,
                                       GGML_TYPE_Q4_0,  GGML_TYPE_Q2_K,  GGML_TYPE_Q4_K,   GGML_TYPE_Q5_K,
                                       GGML_TYPE_Q6_K,  GGML_TYPE_MXFP4, GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS,
                                       GGML_TYPE_IQ3_S, GGML_TYPE_IQ2_XS};

// Runs both sides and compares them. Also checks that each slice of the routing was read, so that the comparison is not
// trivial.
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
    EXPECT_GE(sides.store.stats().slice_reads, routing.distinct() * sides.model.specs().size());
    EXPECT_EQ(sides.store.stats().read_errors, 0U);
}

TwoSides one_tensor(const ExpertSpec &spec, uint64_t slots) { return {DiskModel({spec}, experts, top_k), {slots}}; }

class EveryType : public testing::TestWithParam<ggml_type> {};

TEST_P(EveryType, GivesStocksBitsForOneTokenAndForMany) {
    for (const int64_t tokens : {1, 200}) {
        for (const bool input_per_use : {false, true}) {
            SCOPED_TRACE(fmt::format("{} tokens, input {}", tokens, input_per_use ? "per use" : "shared"));
            const Routing routing = route(tokens, top_k, experts);
            TwoSides sides = one_tensor({.type = GetParam()}, std::min(routing.distinct() + 1, size_t{experts}));
            compare(sides, routing, input_per_use);
            EXPECT_EQ(sides.store.stats().evictions, 0U);
        }
    }
}

TEST_P(EveryType, GivesStocksBitsThroughOneSlot) {
    for (const int64_t tokens : {1, 30}) {
        TwoSides sides = one_tensor({.type = GetParam(), .in = 512, .out = 72}, 1);
        compare(sides, route(tokens, top_k, experts), false);
        EXPECT_GT(sides.store.stats().evictions, 0U);
    }
}

INSTANTIATE_TEST_SUITE_P(Weights, EveryType, testing::ValuesIn(compared_types),
                         [](const auto &of) { return std::string(ggml_type_name(of.param)); });

TEST(Equality, OfRowCountsThatFillNoChunkOrBlock) {
    for (const ggml_type type : {GGML_TYPE_Q4_K, GGML_TYPE_F16, GGML_TYPE_IQ2_XS}) {
        for (const int64_t out : {1, 8, 15, 16, 17, 63, 64, 65, 128, 136}) {
            SCOPED_TRACE(fmt::format("{} rows of {}", out, ggml_type_name(type)));
            TwoSides sides = one_tensor({.type = type, .out = out}, top_k);
            compare(sides, route(20, top_k, experts), false);
        }
    }
}

TEST(Equality, OfAnyNumberOfSlots) {
    const Routing routing = route(50, top_k, experts);
    for (const uint64_t slots : {1, 2, 4, 15, 16, 17}) {
        SCOPED_TRACE(fmt::format("{} slots", slots));
        TwoSides sides = one_tensor({.type = GGML_TYPE_Q6_K}, slots);
        compare(sides, routing, true);
    }
}

TEST(Equality, OfIdsThatAreAViewOfAWiderTensor) {
    for (const int64_t tokens : {1, 40}) {
        Routing routing = route(tokens, top_k, experts);
        routing.ids_in_row = experts;
        TwoSides sides = one_tensor({}, top_k);
        compare(sides, routing, false);
    }
}

TEST(Equality, OfTokensThatAllChoseTheSameExperts) {
    for (const ggml_type type : {GGML_TYPE_Q4_K, GGML_TYPE_IQ3_S}) {
        Routing routing = route(1, top_k, experts);
        routing.tokens = 200;
        const std::vector<int32_t> first = routing.ids;
        while (routing.ids.size() < 200 * first.size()) {
            routing.ids.insert(routing.ids.end(), first.begin(), first.end());
        }
        TwoSides sides = one_tensor({.type = type}, top_k);
        compare(sides, routing, true);
        EXPECT_EQ(sides.store.stats().slice_reads, uint64_t{top_k}) << "each expert is read once";
    }
}

TEST(Equality, OfManyTokensWithOneAndTheSameExpert) {
    const Routing routing{1, 33, std::vector<int32_t>(33, 5), 1};
    TwoSides sides = one_tensor({.type = GGML_TYPE_Q8_0}, 1);
    compare(sides, routing, false);
}

// With eight rows per expert, ggml switches to another kernel.
TEST(Equality, OnBothSidesOfThePanelKernelsThreshold) {
    for (const ggml_type type : {GGML_TYPE_IQ2_XS, GGML_TYPE_IQ3_S}) {
        for (const int64_t rows : {7, 8, 9}) {
            SCOPED_TRACE(fmt::format("{} rows of {}", rows, ggml_type_name(type)));
            // Expert 3 gets `rows` rows, expert 9 fewer.
            Routing routing{2, rows, {}, 2};
            for (int64_t token = 0; token < rows; token++) {
                routing.ids.insert(routing.ids.end(), {3, token < 4 ? 9 : static_cast<int32_t>(token % 3)});
            }
            TwoSides sides = one_tensor({.type = type, .in = 512}, 2);
            compare(sides, routing, false);
        }
    }
}

// Whether ggml's panel kernel multiplies this many tokens with weights of this type.
bool runs_on_panels(ggml_type type, int64_t tokens) {
    const ggml_context_ptr context(ggml_init({ggml_tensor_overhead(), nullptr, true}));
    ggml_tensor *weights = ggml_new_tensor_3d(context.get(), type, 256, 200, experts);
    return ggml_cpu_iqp_supports_mul_mat_id(OpGraph({weights}, route(tokens, top_k, experts), true).op());
}

TEST(PanelKernel, RunsInTheComparisonsOfManyTokensAndNotOfOne) {
    size_t n_known = 0;
    for (int i = 0; i < GGML_TYPE_COUNT; i++) {
        const auto type = static_cast<ggml_type>(i);
        n_known += ggml_blck_size(type) > 0 && runs_on_panels(type, 200) ? 1 : 0;
    }
    if (n_known == 0) {
        GTEST_SKIP() << "ggml has no panel kernel for this CPU";
    }
    const auto of_tokens = [](int64_t tokens) {
        return std::ranges::count_if(compared_types, [&](ggml_type type) { return runs_on_panels(type, tokens); });
    };
    EXPECT_GT(of_tokens(200), 0);
    EXPECT_EQ(of_tokens(1), 0);
}

TEST(Equality, OfALayersThreeOpsInOneGraph) {
    const std::vector<ExpertSpec> layer = {
        {.type = GGML_TYPE_Q4_K, .in = 256, .out = 256, .projection = Projection::up},
        {.type = GGML_TYPE_Q4_K, .in = 256, .out = 256, .projection = Projection::gate},
        {.type = GGML_TYPE_Q6_K, .in = 256, .out = 256, .projection = Projection::down},
    };
    for (const uint64_t few : {1, 8, 48}) {
        SCOPED_TRACE(fmt::format("{} slots of each class", few));
        TwoSides sides(DiskModel(layer, experts, top_k), {few, few});
        compare(sides, route(1, top_k, experts), true);
        compare(sides, route(64, top_k, experts), true);
    }
}

// Uses the real readers and a real file, because direct I/O may have requirements that the simulation lacks.
TEST(Equality, OnARealFile) {
    DiskModel model({{.type = GGML_TYPE_Q4_K}}, experts, top_k);
    std::string path = (std::filesystem::current_path() / "experts-XXXXXX").string();
    const UniqueFd fd(::mkstemp(path.data()));
    ASSERT_EQ(::write(fd.get(), model.image.data(), model.image.size()), static_cast<ssize_t>(model.image.size()));
    model.layout.files = {path};
    const auto reader = open_reader(model.layout.files, {});
    ::unlink(path.c_str());
    ExpertStore store(model.layout, std::vector<uint64_t>{3}, *reader);
    ExpertBinding binding(model.layout, store, Kernels::plain);
    const LoadedTensors in_memory(model, ggml_backend_cpu_buffer_type());
    const LoadedTensors streamed(model, expert_buffer_type());
    ASSERT_TRUE(binding.bind(streamed.all().front()));

    const Routing routing = route(100, top_k, experts);
    OpGraph stock(in_memory.all(), routing, false);
    OpGraph ours(streamed.all(), routing, false);
    ASSERT_EQ(stock.run(1), GGML_STATUS_SUCCESS);
    for (const int threads : thread_counts()) {
        ASSERT_EQ(ours.run(threads), GGML_STATUS_SUCCESS);
        EXPECT_TRUE(same_bits(stock.output(), ours.output())) << threads << " threads, " << reader->info().backend;
    }
    EXPECT_GE(store.stats().slice_reads, uint64_t{experts});
}

} // namespace
} // namespace larder::test

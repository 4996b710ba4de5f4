// Experts that ggml multiplies, at addresses that larder provides. larder only receives the routing.
#include "op_fixture.h"

#include <gmock/gmock.h>

namespace larder::test {
namespace {

constexpr uint32_t experts = 16;
constexpr uint32_t top_k = 4;

struct Told {
    uint32_t moe_layer;
    uint32_t top_k;
    std::vector<int32_t> experts;
    bool operator==(const Told &) const = default;
};

// Two layers of two projections. The file's bytes in memory replace a file mapping.
class Mapped : public testing::Test {
  protected:
    DiskModel model_{{{.type = GGML_TYPE_Q4_K, .layer = 0, .projection = Projection::up},
                      {.type = GGML_TYPE_Q4_K, .layer = 0, .projection = Projection::gate},
                      {.type = GGML_TYPE_Q6_K, .layer = 1, .projection = Projection::up},
                      {.type = GGML_TYPE_IQ2_XXS, .layer = 1, .projection = Projection::gate}},
                     experts,
                     top_k};
    std::vector<Told> told_;
    MappedExperts mapped_{model_.layout,
                          [this](const ExpertTensor &tensor) {
                              return model_.image.data() + model_.layout.tensors[tensor.tensor].extent.offset;
                          },
                          [this](uint32_t moe_layer, uint32_t k, std::span<const int32_t> chosen) {
                              told_.push_back({moe_layer, k, {chosen.begin(), chosen.end()}});
                          }};
};

TEST_F(Mapped, AreMultipliedToStocksBitsAndEachMoeLayersRouteIsReportedOnce) {
    const LoadedTensors stock(model_, ggml_backend_cpu_buffer_type());
    const LoadedTensors mapped(model_, mapped_buffer_type());
    for (size_t i = 0; i < mapped.all().size(); i++) {
        EXPECT_EQ(mapped_.bind(mapped.all()[i]), &model_.layout.expert_tensors[i]);
    }
    for (const int64_t tokens : {1, 3, 50}) {
        const Routing routing = route(tokens, top_k, experts);
        OpGraph theirs(stock.all(), routing, false);
        OpGraph ours(mapped.all(), routing, false);
        for (const int threads : thread_counts()) {
            told_.clear();
            ASSERT_EQ(theirs.run(threads), GGML_STATUS_SUCCESS);
            ASSERT_EQ(ours.run(threads), GGML_STATUS_SUCCESS);
            for (size_t i = 0; i < mapped.all().size(); i++) {
                EXPECT_TRUE(same_bits(theirs.output(i), ours.output(i)));
            }
            EXPECT_THAT(told_, testing::ElementsAre(Told{0, top_k, routing.ids}, Told{1, top_k, routing.ids}));
        }
    }
}

TEST_F(Mapped, ReadARouteThatIsAViewOfAWiderTensor) {
    const LoadedTensors mapped(model_, mapped_buffer_type());
    for (ggml_tensor *tensor : mapped.all()) {
        mapped_.bind(tensor);
    }
    Routing routing = route(7, top_k, experts);
    routing.ids_in_row = 11;
    OpGraph ours(mapped.all(), routing, false);
    ASSERT_EQ(ours.run(1), GGML_STATUS_SUCCESS);
    EXPECT_EQ(told_.front(), (Told{0, top_k, routing.ids}));
}

TEST_F(Mapped, AreBoundByNameShapeAndType) {
    const auto bound = [&](const char *name, ggml_type type, std::array<int64_t, 3> shape) {
        const ggml_context_ptr context(ggml_init({ggml_tensor_overhead(), nullptr, true}));
        ggml_tensor *tensor = ggml_new_tensor_3d(context.get(), type, shape[0], shape[1], shape[2]);
        ggml_set_name(tensor, name);
        const ExpertTensor *known = mapped_.bind(tensor);
        EXPECT_EQ(tensor->data != nullptr, known != nullptr);
        return known != nullptr;
    };
    EXPECT_TRUE(bound("blk.0.ffn_up_exps.weight", GGML_TYPE_Q4_K, {256, 200, experts}));
    EXPECT_FALSE(bound("blk.2.ffn_up_exps.weight", GGML_TYPE_Q4_K, {256, 200, experts}));
    EXPECT_FALSE(bound("blk.0.ffn_up_exps.weight", GGML_TYPE_Q6_K, {256, 200, experts}));
    EXPECT_FALSE(bound("blk.0.ffn_up_exps.weight", GGML_TYPE_Q4_K, {256, 201, experts}));
    EXPECT_FALSE(bound("blk.0.ffn_up_exps.weight", GGML_TYPE_Q4_K, {256, 200, experts - 1}));
}

// The buffer type is in ggml's list of buffer types and supports all multiplications of experts. Still, larder must not
// report it as stock's choice.
TEST(MappedBuffer, IsNotTakenForOneThatStockWouldChoose) {
    mapped_buffer_type();
    const DiskModel model({{.type = GGML_TYPE_Q8_0, .in = 256, .out = 64}}, experts, top_k);
    EXPECT_NO_THROW(check_kernels(model.layout, Kernels::repacked));
}

TEST(MappedBuffer, IsOneForTheProcessAndItsTensorsAreRead) {
    EXPECT_EQ(mapped_buffer_type(), mapped_buffer_type());
    EXPECT_STREQ(ggml_backend_buft_name(mapped_buffer_type()), "Mapped experts");
    const DiskModel model({{.type = GGML_TYPE_Q8_0, .in = 256, .out = 64}}, experts, top_k);
    MappedExperts mapped(
        model.layout, [&](const ExpertTensor &) { return model.image.data() + model.layout.tensors[0].extent.offset; },
        [](uint32_t, uint32_t, std::span<const int32_t>) {});
    const LoadedTensors tensors(model, mapped_buffer_type());
    ASSERT_NE(mapped.bind(tensors.all().front()), nullptr);
    std::vector<char> bytes(64);
    ggml_backend_tensor_get(tensors.all().front(), bytes.data(), 32, bytes.size());
    EXPECT_EQ(std::memcmp(bytes.data(), model.image.data() + model.layout.tensors[0].extent.offset + 32, 64), 0);
}

} // namespace
} // namespace larder::test

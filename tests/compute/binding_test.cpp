// The buffer type, which reserves addresses only, and the binding of its tensors to the extents in the file.
#include "op_fixture.h"

#include <regex.h>

#include <fstream>
#include <sstream>

namespace larder::test {
namespace {

constexpr uint32_t experts = 16;
constexpr uint32_t top_k = 4;

DiskModel small_model() { return DiskModel({{.type = GGML_TYPE_Q8_0, .in = 256, .out = 64}}, experts, top_k); }

struct Mapping {
    std::string permissions;
    uint64_t rss_bytes = 0;
};

// The kernel's data on the mapping that contains an address.
Mapping mapping_of(const void *address) {
    const auto wanted = reinterpret_cast<uintptr_t>(address);
    Mapping mapping;
    std::ifstream smaps("/proc/self/smaps");
    for (std::string line; std::getline(smaps, line);) {
        std::istringstream words(line);
        uintptr_t begin = 0;
        uintptr_t end = 0;
        char dash = 0;
        std::string permissions;
        if (words >> std::hex >> begin >> dash >> end >> permissions && dash == '-') {
            mapping.permissions = wanted >= begin && wanted < end ? permissions : "";
        } else if (!mapping.permissions.empty() && line.starts_with("Rss:")) {
            mapping.rss_bytes = std::stoull(line.substr(4)) * 1024;
            return mapping;
        }
    }
    return {};
}

TEST(ExpertBuffer, IsNeverResident) {
    TwoSides sides(small_model(), {experts});
    const ggml_tensor *tensor = sides.streamed.all().front(); // ggml has set it by now
    EXPECT_EQ(mapping_of(tensor->data).permissions, "---p");
    OpGraph ours(sides.streamed.all(), route(50, top_k, experts), false);
    ASSERT_EQ(ours.run(1), GGML_STATUS_SUCCESS);
    EXPECT_EQ(mapping_of(tensor->data).permissions, "---p");
    EXPECT_EQ(mapping_of(tensor->data).rss_bytes, 0U);
    EXPECT_EQ(mapping_of(sides.stock.all().front()->data).permissions, "rw-p") << "the look at the mapping works";
}

TEST(ExpertBuffer, HasAddressesForEveryByteOfATensorFarBiggerThanRam) {
    const ggml_context_ptr context(ggml_init({ggml_tensor_overhead(), nullptr, true}));
    ggml_tensor *tensor = ggml_new_tensor_3d(context.get(), GGML_TYPE_F16, 1 << 16, 1 << 16, 1 << 4); // 128 GiB
    const ggml_backend_buffer_ptr buffer(ggml_backend_alloc_ctx_tensors_from_buft(context.get(), expert_buffer_type()));
    ASSERT_NE(buffer, nullptr);
    EXPECT_GE(ggml_backend_buffer_get_size(buffer.get()), ggml_nbytes(tensor));
    EXPECT_EQ(mapping_of(static_cast<char *>(tensor->data) + ggml_nbytes(tensor) - 1).permissions, "---p");
}

TEST(ExpertBuffer, TakesSettingAndClearingAsNothing) {
    const DiskModel model = small_model();
    const LoadedTensors tensors(model, expert_buffer_type());
    const std::vector<char> bytes(64, 'x');
    ggml_backend_tensor_set(tensors.all().front(), bytes.data(), 0, bytes.size());
    ggml_backend_buffer_clear(tensors.buffer(), 1);
    EXPECT_EQ(mapping_of(tensors.all().front()->data).rss_bytes, 0U);
    EXPECT_FALSE(ggml_backend_buffer_is_host(tensors.buffer())) << "nobody may follow its pointers";
}

TEST(ExpertBufferDeathTest, EndsTheProcessWhenATensorIsReadBack) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const DiskModel model = small_model();
    const LoadedTensors tensors(model, expert_buffer_type());
    std::vector<char> bytes(64);
    EXPECT_DEATH(ggml_backend_tensor_get(tensors.all().front(), bytes.data(), 0, bytes.size()),
                 "read outside of MUL_MAT_ID");
}

TEST(ExpertBuffer, IsOneForTheProcess) {
    EXPECT_EQ(expert_buffer_type(), expert_buffer_type());
    EXPECT_STREQ(ggml_backend_buft_name(expert_buffer_type()), "Experts");
}

// Binds a tensor of a model built from hyperparameters to the file of small_model().
bool binds(const std::string &name, ggml_type type, std::array<int64_t, 3> shape) {
    const DiskModel model = small_model();
    ImageReader reader(model.image);
    ExpertStore store(model.layout, std::vector<uint64_t>{experts}, reader);
    ExpertBinding binding(model.layout, store, Kernels::plain);
    const ggml_context_ptr context(ggml_init({ggml_tensor_overhead(), nullptr, true}));
    ggml_tensor *tensor = ggml_new_tensor_3d(context.get(), type, shape[0], shape[1], shape[2]);
    ggml_set_name(tensor, name.c_str());
    const bool bound = binding.bind(tensor);
    EXPECT_EQ(tensor->extra != nullptr, bound);
    return bound;
}

TEST(Binding, TakesATensorOfTheFilesNameShapeAndType) {
    EXPECT_TRUE(binds("blk.0.ffn_up_exps.weight", GGML_TYPE_Q8_0, {256, 64, experts}));
}

TEST(Binding, RefusesANameTheFileDoesNotHave) {
    EXPECT_FALSE(binds("blk.1.ffn_up_exps.weight", GGML_TYPE_Q8_0, {256, 64, experts}));
    EXPECT_FALSE(binds("blk.0.ffn_up_exps.weigh", GGML_TYPE_Q8_0, {256, 64, experts}));
    EXPECT_FALSE(binds("", GGML_TYPE_Q8_0, {256, 64, experts}));
}

TEST(Binding, RefusesAnotherShape) {
    EXPECT_FALSE(binds("blk.0.ffn_up_exps.weight", GGML_TYPE_Q8_0, {288, 64, experts}));
    EXPECT_FALSE(binds("blk.0.ffn_up_exps.weight", GGML_TYPE_Q8_0, {256, 65, experts}));
    EXPECT_FALSE(binds("blk.0.ffn_up_exps.weight", GGML_TYPE_Q8_0, {256, 64, experts - 1}));
    EXPECT_FALSE(binds("blk.0.ffn_up_exps.weight", GGML_TYPE_Q8_0, {64, 256, experts})) << "as many bytes, transposed";
}

TEST(Binding, RefusesAnotherType) {
    EXPECT_FALSE(binds("blk.0.ffn_up_exps.weight", GGML_TYPE_Q4_0, {256, 64, experts}));
    EXPECT_FALSE(binds("blk.0.ffn_up_exps.weight", GGML_TYPE_Q8_1, {256, 64, experts}));
}

TEST(ExpertTensorPattern, MatchesRoutedExpertsOnly) {
    regex_t pattern; // POSIX reads this expression as std::regex does, which llama.cpp uses
    ASSERT_EQ(::regcomp(&pattern, expert_tensor_pattern, REG_EXTENDED | REG_NOSUB), 0);
    for (const char *name : {"blk.0.ffn_gate_exps.weight", "blk.61.ffn_up_exps.weight", "blk.7.ffn_down_exps.weight",
                             "blk.3.ffn_gate_up_exps.weight", "blk.12.ffn_down_chexps.weight"}) {
        EXPECT_EQ(::regexec(&pattern, name, 0, nullptr, 0), 0) << name;
    }
    for (const char *name : {"blk.0.ffn_gate_shexp.weight", "blk.0.ffn_up.weight", "blk.0.ffn_gate_inp.weight",
                             "blk.0.ffn_down_exps.bias", "blk.0.ffn_up_exps.scale", "output.weight"}) {
        EXPECT_NE(::regexec(&pattern, name, 0, nullptr, 0), 0) << name;
    }
    ::regfree(&pattern);
}

} // namespace
} // namespace larder::test

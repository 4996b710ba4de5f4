// Fuzzes GGUF metadata with seeds. For any bytes, the result is a layout within its files or an Error.
#include "base/error.h"
#include "layout/account.h"
#include "layout/gguf_builder.h"
#include "layout/layout.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace larder {
namespace {

constexpr uint64_t seed = 20260;

// One to four changes: a bit, a byte, a boundary number, or a truncation.
void mutate(std::string &bytes, std::mt19937_64 &random) {
    static constexpr std::array<uint64_t, 9> traps = {
        0, 1, 0x7f, 0xff, 0x7fffffff, 0xffffffff, uint64_t{1} << 62, uint64_t{1} << 63, ~uint64_t{0}};
    const uint64_t n_change = 1 + random() % 4;
    for (uint64_t i = 0; i < n_change; i++) {
        const size_t at = random() % bytes.size();
        switch (random() % 8) {
        case 0:
            bytes.resize(at + 1);
            break;
        case 1:
        case 2:
            std::memcpy(bytes.data() + at, &traps.at(random() % traps.size()), std::min<size_t>(8, bytes.size() - at));
            break;
        case 3:
            std::memcpy(bytes.data() + at, &traps.at(random() % traps.size()), std::min<size_t>(4, bytes.size() - at));
            break;
        case 4:
            bytes[at] = static_cast<char>(random());
            break;
        default:
            bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
        }
    }
}

void expect_inside_its_files(const ModelLayout &layout, int round) {
    for (const TensorInfo &tensor : layout.tensors) {
        ASSERT_LE(tensor.extent.offset + tensor.extent.bytes, layout.file_bytes[tensor.extent.file])
            << tensor.name << " in round " << round << " of seed " << seed;
    }
    for (const ExpertTensor &expert : layout.expert_tensors) {
        const Extent last = layout.slice_extent(expert, expert.n_expert - 1);
        ASSERT_LE(window_of(last).bytes, layout.size_classes[expert.size_class].slot_bytes);
    }
    account_of(layout);
}

struct Outcome {
    int accepted = 0;
    int refused = 0;
};

// Mutates the metadata of `gguf` and opens `path` each time. Keeps the length of the file, except for truncations.
Outcome fuzz(const GgufBuilder &gguf, const TempDir &dir, const std::string &mutated, const std::string &opened,
             int rounds) {
    std::mt19937_64 random(seed);
    Outcome outcome;
    const uint64_t data_bytes = gguf.file_bytes() - gguf.metadata().size();
    for (int round = 0; round < rounds; round++) {
        std::string bytes = gguf.metadata();
        mutate(bytes, random);
        dir.write(mutated, bytes, bytes.size() < gguf.metadata().size() ? bytes.size() : bytes.size() + data_bytes);
        try {
            expect_inside_its_files(open_layout(opened), round);
            outcome.accepted++;
        } catch (const Error &) {
            outcome.refused++;
        }
    }
    return outcome;
}

TEST(GgufFuzz, ASingleFileEndsInALayoutOrAnError) {
    const TempDir dir;
    const Outcome outcome = fuzz(small_moe(), dir, "model.gguf", dir.file("model.gguf"), 3000);
    EXPECT_GT(outcome.accepted, 100);
    EXPECT_GT(outcome.refused, 100);
}

// The hyperparameters that llama.cpp or larder reads, with the values of the small model.
struct Number {
    const char *name;
    std::optional<uint32_t> good = {};
};
const std::vector<Number> numbers = {
    {"block_count", 2},
    {"context_length", 512},
    {"expert_count", 4},
    {"expert_used_count", 2},
    {"embedding_length", 32},
    {"attention.head_count", 4},
    {"vocab_size", 10},
    {"nextn_predict_layers"},
    {"feed_forward_length"},
    {"leading_dense_block_count"},
    {"expert_shared_count"},
    {"expert_group_count"},
    {"expert_group_used_count"},
    {"expert_gating_func"},
    {"expert_feed_forward_length"},
    {"full_attention_interval"},
    {"interleave_moe_layer_step"},
    {"attention.head_count_kv"},
    {"attention.key_length"},
    {"attention.value_length"},
    {"attention.key_length_mla"},
    {"attention.value_length_mla"},
    {"attention.key_length_swa"},
    {"attention.value_length_swa"},
    {"attention.sliding_window"},
    {"attention.sliding_window_pattern"},
    {"attention.q_lora_rank"},
    {"attention.kv_lora_rank"},
    {"attention.shared_kv_layers"},
    {"attention.recurrent_layers"},
    {"rope.dimension_count"},
    {"rope.dimension_count_swa"},
    {"rope.dimension_sections"},
    {"ssm.conv_kernel"},
    {"ssm.inner_size"},
    {"ssm.state_size"},
    {"ssm.time_step_rank"},
    {"ssm.group_count"},
    {"kda.head_dim"},
    {"wkv.head_size"},
    {"shortconv.l_cache"},
};

// Adds a boundary number, of any type, as a single value or an array.
void add_trap(GgufBuilder &gguf, const std::string &key, std::mt19937_64 &random) {
    static constexpr std::array<uint64_t, 12> values = {
        0, 1, 2, 3, 7, 4096, 0x7fffffff, 0x80000000, 0xffffffff, uint64_t{1} << 32, uint64_t{1} << 62, ~uint64_t{0}};
    struct Form {
        gguf_type type;
        size_t bytes;
    };
    static constexpr std::array<Form, 8> forms = {{{GGUF_TYPE_UINT32, 4},
                                                   {GGUF_TYPE_UINT32, 4},
                                                   {GGUF_TYPE_UINT32, 4},
                                                   {GGUF_TYPE_UINT64, 8},
                                                   {GGUF_TYPE_INT32, 4},
                                                   {GGUF_TYPE_INT64, 8},
                                                   {GGUF_TYPE_UINT8, 1},
                                                   {GGUF_TYPE_FLOAT32, 4}}};
    const Form form = forms.at(random() % forms.size());
    const std::string bytes = GgufBuilder::raw(values.at(random() % values.size())).substr(0, form.bytes);
    if (random() % 4 != 0) {
        gguf.key_raw(key, form.type, bytes);
        return;
    }
    const uint64_t count = random() % 4;
    std::string list = GgufBuilder::raw<int32_t>(form.type) + GgufBuilder::raw(count);
    for (uint64_t i = 0; i < count; i++) {
        list += bytes;
    }
    gguf.key_raw(key, GGUF_TYPE_ARRAY, list);
}

TEST(GgufFuzz, NumbersOfTheArchitectureEndInALayoutOrAnError) {
    const TempDir dir;
    std::mt19937_64 random(seed);
    Outcome outcome;
    for (int round = 0; round < 3000; round++) {
        GgufBuilder gguf;
        gguf.key_text("general.architecture", "testmoe").key_text("tokenizer.ggml.model", "none");
        for (const Number &number : numbers) {
            const std::string key = std::string("testmoe.") + number.name;
            if (random() % 16 == 0) {
                add_trap(gguf, key, random);
            } else if (number.good) {
                gguf.key(key, *number.good);
            }
        }
        add_small_moe_tensors(gguf, {});
        try {
            expect_inside_its_files(open_layout(gguf.write(dir)), round);
            outcome.accepted++;
        } catch (const Error &error) {
            EXPECT_FALSE(error.remedy().empty()) << error.what();
            outcome.refused++;
        }
    }
    EXPECT_GT(outcome.accepted, 100);
    EXPECT_GT(outcome.refused, 100);
}

TEST(GgufFuzz, ShardsEndInALayoutOrAnError) {
    const TempDir dir;
    GgufBuilder first = small_moe();
    first.key_u16("split.no", 0).key_u16("split.count", 2);
    GgufBuilder second;
    second.key_u16("split.no", 1).key_u16("split.count", 2).tensor("output_norm.weight", GGML_TYPE_F32, {32});
    second.write(dir, "m-00002-of-00002.gguf");
    const std::string path = dir.file("m-00001-of-00002.gguf");
    const Outcome outcome = fuzz(first, dir, "m-00001-of-00002.gguf", path, 2000);
    EXPECT_GT(outcome.accepted, 100);
    EXPECT_GT(outcome.refused, 100);
}

} // namespace
} // namespace larder

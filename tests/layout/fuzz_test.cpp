// Seeded fuzzing of GGUF metadata: whatever the bytes, the end is a layout inside its files or an Error.
#include "base/error.h"
#include "layout/account.h"
#include "layout/gguf_builder.h"
#include "layout/layout.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>

namespace larder {
namespace {

constexpr uint64_t seed = 20260;

// One to four changes: a bit, a byte, a number that programs trip over, a cut.
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

// Mutates the metadata of `gguf`, keeping the file's length unless a cut shortens it, and opens `path` each time.
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

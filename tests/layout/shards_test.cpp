// Split models: any shard leads to all others; missing and foreign shards are named.
#include "layout/gguf_builder.h"
#include "layout/layout.h"
#include "layout/refuses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace larder {
namespace {

std::string shard_name(int index, int count) { return fmt::format("moe-{:05}-of-{:05}.gguf", index + 1, count); }

GgufBuilder split_keys(GgufBuilder gguf, uint16_t index, uint16_t count) {
    gguf.key_u16("split.no", index).key_u16("split.count", count).key("split.tensors.count", 16);
    return gguf;
}

// small_moe() in three shards: embedding, layers 0 and 1, output.
class Shards : public testing::Test {
  protected:
    TempDir dir;

    void SetUp() override {
        first().write(dir, shard_name(0, 3));
        GgufBuilder second = split_keys({}, 1, 3);
        add_moe_layer(second, 0, 4);
        add_moe_layer(second, 1, 4);
        second.write(dir, shard_name(1, 3));
        third().write(dir, shard_name(2, 3));
    }
    static GgufBuilder first() {
        GgufBuilder gguf = split_keys(moe_keys(), 0, 3);
        gguf.tensor("token_embd.weight", GGML_TYPE_Q8_0, {32, 10});
        return gguf;
    }
    static GgufBuilder third() {
        GgufBuilder gguf = split_keys({}, 2, 3);
        gguf.tensor("output.weight", GGML_TYPE_Q8_0, {32, 10});
        return gguf;
    }
};

TEST_F(Shards, AreFoundFromAnyOfThem) {
    for (int given = 0; given < 3; given++) {
        const ModelLayout layout = open_layout(dir.file(shard_name(given, 3)));
        ASSERT_EQ(layout.files.size(), 3U);
        for (int i = 0; i < 3; i++) {
            const auto index = static_cast<size_t>(i);
            EXPECT_EQ(layout.files[index], dir.file(shard_name(i, 3)));
            EXPECT_EQ(layout.file_bytes[index], std::filesystem::file_size(layout.files[index]));
            EXPECT_EQ(layout.identities[index], identity_of(layout.files[index]));
        }
        EXPECT_EQ(layout.find("output.weight")->extent.file, 2U);
        EXPECT_EQ(layout.expert_tensors.size(), 6U);
        EXPECT_EQ(layout.slice_extent(layout.expert_tensors[0], 1).file, 1U);
    }
}

TEST_F(Shards, AddUpToTheUnsplitModel) {
    const ModelLayout split = open_layout(dir.file(shard_name(0, 3)));
    const ModelLayout whole = open_layout(small_moe().write(dir, "whole.gguf"));
    EXPECT_EQ(split.total_bytes, whole.total_bytes);
    EXPECT_EQ(split.routed_bytes, whole.routed_bytes);
    EXPECT_EQ(split.token_bytes, whole.token_bytes);
}

TEST_F(Shards, ShareOneMetadataWithKeysOfTheFirstAndTensorsOfAll) {
    const ModelLayout layout = open_layout(dir.file(shard_name(2, 3)));
    const gguf_context *metadata = layout.metadata.get();
    EXPECT_GE(gguf_find_key(metadata, "testmoe.expert_count"), 0);
    ASSERT_EQ(gguf_get_n_tensors(metadata), 16);
    for (const TensorInfo &tensor : layout.tensors) {
        const int64_t id = gguf_find_tensor(metadata, tensor.name.c_str());
        ASSERT_GE(id, 0) << tensor.name;
        EXPECT_EQ(gguf_get_tensor_size(metadata, id), tensor.extent.bytes);
        EXPECT_EQ(gguf_get_tensor_type(metadata, id), tensor.type);
        EXPECT_TRUE(std::equal(tensor.shape.begin(), tensor.shape.end(), gguf_get_tensor_ne(metadata, id)));
    }
}

TEST_F(Shards, ThatAreMissingAreNamed) {
    std::filesystem::remove(dir.file(shard_name(1, 3)));
    const auto error = refusal_of(dir.file(shard_name(2, 3)));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::model);
    EXPECT_THAT(error->message(), testing::HasSubstr(shard_name(1, 3) + ": shard 2 of 3 is missing"));
}

TEST_F(Shards, ThatWereRenamedAreRefused) {
    std::filesystem::rename(dir.file(shard_name(1, 3)), dir.file("renamed.gguf"));
    expect_refusal(dir.file("renamed.gguf"), "is shard 2 of 3 but is not named so");
}

// cat 1 2 3 > joined: a reader sees only the first shard.
TEST_F(Shards, WrittenOneAfterTheOtherIntoOneFileAreRefusedWithTheToolThatJoins) {
    std::string bytes;
    for (int i = 0; i < 3; i++) {
        std::ifstream shard(dir.file(shard_name(i, 3)), std::ios::binary);
        bytes.append(std::istreambuf_iterator<char>(shard), {});
    }
    for (const std::string &name : {std::string("joined.gguf"), shard_name(0, 3)}) {
        const std::string path = dir.write(name, bytes);
        expect_refusal(path, "is several shards written one after the other into one file");
        EXPECT_THAT(refusal_of(path)->remedy(), testing::HasSubstr("llama-gguf-split --merge"));
    }
    const GgufBuilder whole = small_moe(); // bytes after a model in one file are ignored
    EXPECT_FALSE(refusal_of(dir.write(
        "whole.gguf", whole.metadata() + std::string(whole.file_bytes() - whole.metadata().size(), '\0') + bytes)));
}

// The cache of the Hugging Face hub: MODEL/snapshots/REVISION/NAME links to MODEL/blobs/HASH.
TEST_F(Shards, UnderTheirBlobsNamesAreRefusedWithTheLinkThatNamesThem) {
    namespace fs = std::filesystem;
    const fs::path cache = dir.file("models--org--moe");
    const fs::path snapshot = cache / "snapshots" / "0123abcd";
    fs::create_directories(cache / "blobs");
    fs::create_directories(snapshot);
    std::vector<std::string> blobs;
    for (int i = 0; i < 3; i++) {
        blobs.push_back((cache / "blobs" / fmt::format("{:064}", i)).string());
        fs::rename(dir.file(shard_name(i, 3)), blobs.back());
    }
    expect_refusal(blobs[1], "is shard 2 of 3 but is not named so");
    EXPECT_THAT(refusal_of(blobs[1])->remedy(), testing::EndsWith("give " + (cache / "snapshots").string()));
    for (int i = 0; i < 3; i++) {
        fs::create_symlink(fmt::format("../../blobs/{:064}", i), snapshot / shard_name(i, 3));
    }
    EXPECT_THAT(refusal_of(blobs[1])->remedy(), testing::EndsWith("give " + (snapshot / shard_name(1, 3)).string()));
    EXPECT_EQ(open_layout((snapshot / shard_name(1, 3)).string()).files.size(), 3U);
}

TEST_F(Shards, OfAnAbsurdCountAreRefused) {
    GgufBuilder gguf = moe_keys();
    const uint64_t count = uint64_t{1} << 60;
    gguf.key_raw("split.count", GGUF_TYPE_UINT64, GgufBuilder::raw(count)).key_u16("split.no", 0);
    gguf.tensor("token_embd.weight", GGML_TYPE_Q8_0, {32, 10});
    expect_refusal(gguf.write(dir), "is shard 1 of 1152921504606846976 but is not named so");
    expect_refusal(gguf.write(dir, shard_name(0, 3)), "is shard 1 of 1152921504606846976 but is not named so");
}

TEST_F(Shards, OfAnotherModelAreRefused) {
    std::filesystem::copy_file(dir.file(shard_name(1, 3)), dir.file(shard_name(2, 3)),
                               std::filesystem::copy_options::overwrite_existing);
    const auto error = refusal_of(dir.file(shard_name(0, 3)));
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message(), testing::HasSubstr(shard_name(2, 3)));
}

TEST_F(Shards, ThatRepeatATensorAreRefused) {
    GgufBuilder gguf = third();
    gguf.tensor("token_embd.weight", GGML_TYPE_Q8_0, {32, 10});
    gguf.write(dir, shard_name(2, 3));
    expect_refusal(dir.file(shard_name(2, 3)), "token_embd.weight");
}

TEST_F(Shards, ThatLackATensorAreRefused) {
    GgufBuilder gguf = split_keys({}, 2, 3);
    gguf.write(dir, shard_name(2, 3));
    expect_refusal(dir.file(shard_name(0, 3)), "announces 16 tensors, but its shards hold 15");
}

TEST_F(Shards, ThatAreTruncatedAreNamed) {
    std::filesystem::resize_file(dir.file(shard_name(1, 3)),
                                 std::filesystem::file_size(dir.file(shard_name(1, 3))) / 2);
    const auto error = refusal_of(dir.file(shard_name(0, 3)));
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message(), testing::HasSubstr(shard_name(1, 3) + ": tensor"));
}

TEST_F(Shards, WithImpossibleNumbersAreRefused) {
    GgufBuilder gguf = split_keys(moe_keys(), 5, 3);
    gguf.tensor("token_embd.weight", GGML_TYPE_Q8_0, {32, 10});
    expect_refusal(gguf.write(dir, shard_name(0, 3)), "shard 6 of 3");
}

TEST_F(Shards, WithANamelessKeyAreRefused) {
    GgufBuilder gguf = first();
    gguf.key(std::string_view("\0hidden", 7), 1);
    expect_refusal(gguf.write(dir, shard_name(0, 3)), "name is empty");
}

TEST_F(Shards, OfOneAreASingleFile) {
    GgufBuilder gguf = small_moe();
    gguf.key_u16("split.no", 0).key_u16("split.count", 1);
    EXPECT_EQ(open_layout(gguf.write(dir, "any-name.gguf")).files.size(), 1U);
}

} // namespace
} // namespace larder

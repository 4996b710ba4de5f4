// Files that are not models, or are damaged, are refused in one line that names the file and the cause.
#include "layout/gguf_builder.h"
#include "layout/layout.h"
#include "layout/metadata_source.h"
#include "layout/refuses.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <limits>
#include <string>
#include <thread>

namespace larder {
namespace {

class GgufReader : public testing::Test {
  protected:
    TempDir dir;
    std::string write(const std::string &bytes) { return dir.write("model.gguf", bytes); }
    // A MoE model with further metadata from `add`.
    template <typename Add> std::string write_moe_with(Add add) {
        GgufBuilder gguf = small_moe();
        add(gguf);
        return gguf.write(dir);
    }
};

TEST_F(GgufReader, RefusesAMissingFile) { expect_refusal(dir.file("absent.gguf"), "No such file", ErrorKind::io); }

TEST_F(GgufReader, NamesTheLimitOfOpenFilesAndNotThePath) {
    const std::string path = small_moe().write(dir);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{0, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const std::optional<Error> error = refusal_of(path);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::io);
    EXPECT_EQ(error->message(), "cannot open " + path + ": Too many open files");
    EXPECT_THAT(error->remedy(), testing::HasSubstr("ulimit -n"));
}

TEST_F(GgufReader, RefusesAFileThatIsWrittenToWhileItIsRead) {
    const std::string path = small_moe().write(dir);
    const MetadataSource source(path);
    EXPECT_NO_THROW(source.check_unchanged());
    std::filesystem::resize_file(path, source.bytes() + 1);
    EXPECT_THROW(source.check_unchanged(), Error);
}

TEST_F(GgufReader, RefusesAnEmptyFile) { expect_refusal(write(""), "is empty"); }

TEST_F(GgufReader, RefusesADirectory) {
    std::filesystem::create_directory(dir.file("folder.gguf"));
    expect_refusal(dir.file("folder.gguf"), "is a directory");
}

TEST_F(GgufReader, RefusesADeviceWithoutReadingIt) { expect_refusal("/dev/zero", "is not a regular file"); }

TEST_F(GgufReader, RefusesAFileThatIsNotGguf) {
    expect_refusal(write("PK\x03\x04 this is some archive, not a model at all"), "is not a GGUF file");
}

TEST_F(GgufReader, RefusesWrongVersions) {
    for (const uint32_t version : {0U, 1U, 4U, 0xffffffffU}) {
        GgufBuilder gguf = small_moe();
        gguf.version = version;
        expect_refusal(gguf.write(dir), "version");
    }
}

TEST_F(GgufReader, RefusesAByteSwappedFile) {
    GgufBuilder gguf = small_moe();
    gguf.version = uint32_t{GGUF_VERSION} << 24;
    expect_refusal(gguf.write(dir), "byte order");
}

TEST_F(GgufReader, RefusesAFileThatEndsAnywhereInItsMetadata) {
    const std::string metadata = small_moe().metadata();
    for (size_t bytes = 1; bytes < metadata.size() - GGUF_DEFAULT_ALIGNMENT; bytes += 3) {
        expect_refusal(write(metadata.substr(0, bytes)), "is not a readable GGUF model");
    }
}

TEST_F(GgufReader, RefusesATensorPastTheEndOfTheFile) {
    const GgufBuilder gguf = small_moe();
    expect_refusal(dir.write("model.gguf", gguf.metadata(), gguf.metadata().size()), "tensor 'token_embd.weight'");
    expect_refusal(dir.write("model.gguf", gguf.metadata(), gguf.file_bytes() - GGUF_DEFAULT_ALIGNMENT),
                   "tensor 'output.weight'");
}

TEST_F(GgufReader, RefusesCountsNoModelHasAtOnce) {
    for (const uint64_t count : {uint64_t{1} << 63, uint64_t{1} << 62, uint64_t{1} << 40, uint64_t{1000000}}) {
        GgufBuilder keys = small_moe();
        keys.extra_keys = count;
        expect_refusal(keys.write(dir), "metadata keys");
        GgufBuilder tensors = small_moe();
        tensors.extra_tensors = count;
        expect_refusal(tensors.write(dir), "claims to hold");
    }
}

TEST_F(GgufReader, RefusesTextsAndArraysLongerThanTheFile) {
    for (const uint64_t length : {uint64_t{1} << 63, uint64_t{1} << 40, uint64_t{1} << 29}) {
        const std::string huge = GgufBuilder::raw(length);
        expect_refusal(write_moe_with([&](auto &g) { g.key_raw("test.text", GGUF_TYPE_STRING, huge + "abc"); }),
                       "string length");
        for (const int32_t type : {GGUF_TYPE_UINT8, GGUF_TYPE_FLOAT64, GGUF_TYPE_STRING, GGUF_TYPE_BOOL}) {
            expect_refusal(write_moe_with([&](auto &g) {
                               g.key_raw("test.array", GGUF_TYPE_ARRAY, GgufBuilder::raw(type) + huge);
                           }),
                           "key-value");
        }
    }
}

TEST_F(GgufReader, BoundsTheMemoryOfHugeArraysByWhatMetadataMayHold) {
    // The file is large enough for half a billion strings, but no vocabulary has so many.
    GgufBuilder gguf = small_moe();
    gguf.key_raw("test.array", GGUF_TYPE_ARRAY,
                 GgufBuilder::raw<int32_t>(GGUF_TYPE_STRING) + GgufBuilder::raw(uint64_t{1} << 29));
    expect_refusal(dir.write("model.gguf", gguf.metadata(), uint64_t{8} << 30), "key-value");
}

TEST_F(GgufReader, RefusesNestedArraysAndUnknownTypes) {
    expect_refusal(write_moe_with([](auto &g) {
                       g.key_raw("test.nested", GGUF_TYPE_ARRAY,
                                 GgufBuilder::raw<int32_t>(GGUF_TYPE_ARRAY) + GgufBuilder::raw<uint64_t>(1));
                   }),
                   "test.nested");
    expect_refusal(write_moe_with([](auto &g) { g.key_raw("test.unknown", 77, "abcd"); }), "test.unknown");
}

TEST_F(GgufReader, ReadsArraysOfEveryType) {
    GgufBuilder gguf = moe_keys();
    gguf.key_array<uint8_t>("a.bool", GGUF_TYPE_BOOL, {1, 0, 1});
    gguf.key_array<uint8_t>("a.u8", GGUF_TYPE_UINT8, {1, 2});
    gguf.key_array<int16_t>("a.i16", GGUF_TYPE_INT16, {-1});
    gguf.key_array<double>("a.f64", GGUF_TYPE_FLOAT64, {0.5, 2.0});
    gguf.key_array<uint64_t>("a.u64", GGUF_TYPE_UINT64, std::vector<uint64_t>(200000, 7));
    gguf.key_array<uint8_t>("a.empty", GGUF_TYPE_STRING, {});
    gguf.key_raw("a.text", GGUF_TYPE_ARRAY,
                 GgufBuilder::raw<int32_t>(GGUF_TYPE_STRING) + GgufBuilder::raw<uint64_t>(2) +
                     GgufBuilder::text("one") + GgufBuilder::text(""));
    gguf.tensor("token_embd.weight", GGML_TYPE_F32, {32, 10});
    const ModelLayout layout = open_layout(gguf.write(dir));
    const gguf_context *metadata = layout.metadata.get();
    EXPECT_EQ(gguf_get_arr_n(metadata, gguf_find_key(metadata, "a.bool")), 3);
    EXPECT_EQ(gguf_get_arr_n(metadata, gguf_find_key(metadata, "a.u64")), 200000);
    EXPECT_STREQ(gguf_get_arr_str(metadata, gguf_find_key(metadata, "a.text"), 0), "one");
    ASSERT_NE(layout.find("token_embd.weight"), nullptr);
    EXPECT_EQ(layout.find("token_embd.weight")->extent.bytes, 32U * 10 * 4);
}

TEST_F(GgufReader, RefusesDoubleNames) {
    expect_refusal(write_moe_with([](auto &g) { g.tensor("output.weight", GGML_TYPE_F32, {32}); }), "output.weight");
    expect_refusal(write_moe_with([](auto &g) { g.key("testmoe.block_count", 3); }), "testmoe.block_count");
}

TEST_F(GgufReader, RefusesOffsetsThatLieOrOverflow) {
    for (const uint64_t offset : {uint64_t{0}, uint64_t{1} << 63, std::numeric_limits<uint64_t>::max() - 31}) {
        expect_refusal(write_moe_with([&](auto &g) { g.tensor_at(offset, "extra.weight", GGML_TYPE_F32, {32}); }),
                       "extra.weight");
    }
}

TEST_F(GgufReader, RefusesShapesThatOverflow) {
    const int64_t big = int64_t{1} << 32;
    const std::vector<std::vector<int64_t>> shapes = {
        {big, big}, {big, big, big, big}, {big * 2, big * 2, 1, 3}, {int64_t{1} << 62}, {-1}, {32, -5}};
    for (const auto &shape : shapes) {
        expect_refusal(write_moe_with([&](auto &g) { g.tensor("extra.weight", GGML_TYPE_F32, shape); }),
                       "extra.weight");
    }
}

TEST_F(GgufReader, RefusesUnknownTensorTypesAndOddRows) {
    expect_refusal(write_moe_with([](auto &g) { g.tensor("extra.weight", GGML_TYPE_Q8_0, {33, 2}); }), "extra.weight");
    std::string metadata = small_moe().metadata();
    const size_t name = metadata.find("output.weight");
    metadata[name + 13 + 4 + 16] = 99; // after the name: number of dimensions, two dimensions, type
    expect_refusal(dir.write("model.gguf", metadata, small_moe().file_bytes()), "output.weight");
}

TEST_F(GgufReader, AcceptsSizesThatAreNotMultiplesOfTheAlignment) {
    const std::string path = write_moe_with([](auto &g) { g.tensor("odd.weight", GGML_TYPE_F32, {7}); });
    EXPECT_EQ(open_layout(path).find("odd.weight")->extent.bytes, 28U);
}

TEST_F(GgufReader, RefusesAVisionProjectorAndNamesTheRemedy) {
    GgufBuilder gguf;
    gguf.key_text("general.architecture", "clip").tensor("v.patch_embd.weight", GGML_TYPE_F32, {32});
    const std::string path = gguf.write(dir, "mmproj.gguf");
    expect_refusal(path, "vision projector");
    EXPECT_THAT(refusal_of(path)->remedy(), testing::HasSubstr("-m"));
}

TEST_F(GgufReader, RefusesMetadataWithoutAModel) {
    GgufBuilder nothing;
    nothing.key_text("general.name", "nothing");
    expect_refusal(nothing.write(dir), "general.architecture");
    expect_refusal(moe_keys().write(dir), "holds no weights");
    GgufBuilder adapter;
    adapter.key_text("general.architecture", "llama").tensor("blk.0.attn_q.weight.lora_a", GGML_TYPE_F32, {32});
    expect_refusal(adapter.write(dir), "llama.block_count");
}

TEST_F(GgufReader, RefusesKeysOfTheWrongType) {
    GgufBuilder gguf;
    gguf.key_text("general.architecture", "testmoe").key_text("testmoe.block_count", "two");
    gguf.tensor("token_embd.weight", GGML_TYPE_F32, {32});
    expect_refusal(gguf.write(dir), "testmoe.block_count");
    GgufBuilder number;
    number.key("general.architecture", 7).tensor("token_embd.weight", GGML_TYPE_F32, {32});
    expect_refusal(number.write(dir), "general.architecture");
}

TEST_F(GgufReader, RefusesLayerCountsThatWouldEndLlamaCpp) {
    for (const uint32_t n_layer : {0U, 513U, std::numeric_limits<uint32_t>::max()}) {
        GgufBuilder gguf = moe_keys({.n_layer = n_layer});
        gguf.tensor("token_embd.weight", GGML_TYPE_F32, {32});
        expect_refusal(gguf.write(dir), "testmoe.block_count");
    }
}

TEST_F(GgufReader, KeepsHostileNamesOnOneLine) {
    expect_refusal(write_moe_with([](auto &g) { g.key_raw("evil\n\x1b[2J", 77, ""); }), "evil??[2J");
}

TEST_F(GgufReader, MakesTheModelsNameSafeToPrint) {
    GgufBuilder gguf;
    gguf.key_text("general.architecture", "test").key_text("general.name", "a\nb\x1b").key("test.block_count", 1);
    gguf.tensor("token_embd.weight", GGML_TYPE_F32, {32});
    EXPECT_EQ(open_layout(gguf.write(dir)).name, "a?b?");
}

TEST_F(GgufReader, CutsLongTextsOfTheFileInMessages) {
    const std::string text(100'000, 'x');
    GgufBuilder named;
    named.key_text("general.architecture", "test").key_text("general.name", text).key("test.block_count", 1);
    named.tensor("token_embd.weight", GGML_TYPE_F32, {32});
    EXPECT_EQ(open_layout(named.write(dir)).name, text.substr(0, 80).append("…"));
    const auto message_bytes = [&](const GgufBuilder &gguf) {
        const std::string path = gguf.write(dir);
        const std::optional<Error> error = refusal_of(path);
        return error ? std::string(error->what()).size() - path.size() : 0;
    };
    GgufBuilder architecture;
    architecture.key_text("general.architecture", text).tensor("token_embd.weight", GGML_TYPE_F32, {32});
    EXPECT_GT(message_bytes(architecture), 80U);
    EXPECT_LT(message_bytes(architecture), 500U);
    GgufBuilder key = small_moe();
    key.key_raw(text, 77, "");
    EXPECT_GT(message_bytes(key), 80U);
    EXPECT_LT(message_bytes(key), 500U);
}

TEST_F(GgufReader, RefusesAnArchitectureThatIsNoWord) {
    for (const std::string &name : {std::string(), std::string("a\nb"), std::string(65, 'a'), std::string("\x1b[2J")}) {
        GgufBuilder gguf;
        gguf.key_text("general.architecture", name).key(name + ".block_count", 1);
        gguf.tensor("token_embd.weight", GGML_TYPE_F32, {32});
        expect_refusal(gguf.write(dir), "general.architecture");
    }
}

TEST_F(GgufReader, RefusesAKeyWithoutAName) {
    expect_refusal(write_moe_with([](auto &g) { g.key("", 1); }), "is empty");
    expect_refusal(write_moe_with([](auto &g) { g.key(std::string_view("\0hidden", 7), 1); }), "name is empty");
}

TEST_F(GgufReader, RemembersWhichFileItRead) {
    const std::string path = small_moe().write(dir);
    const ModelLayout layout = open_layout(path);
    EXPECT_EQ(layout.identities, std::vector{*identity_of(path)});
    std::filesystem::rename(small_moe().write(dir, "other.gguf"), path); // with the same bytes
    EXPECT_NE(layout.identities[0], *identity_of(path));
}

TEST_F(GgufReader, FindsATensorByItsNameAmongAll) {
    const ModelLayout layout = open_layout(small_moe().write(dir));
    for (const TensorInfo &tensor : layout.tensors) {
        EXPECT_EQ(layout.find(tensor.name), &tensor);
    }
    EXPECT_EQ(layout.find(""), nullptr);
    EXPECT_EQ(layout.find("output.weigh"), nullptr);
    EXPECT_EQ(layout.find("zzz"), nullptr);
}

TEST_F(GgufReader, NamesTheReasonOfEachFileWhenTwoThreadsRead) {
    const std::array<std::string, 2> keys = {"one.key", "the.other.key"};
    std::array<std::string, 2> paths;
    for (size_t i = 0; i < 2; i++) {
        GgufBuilder gguf = small_moe();
        gguf.key_raw(keys.at(i), 77, "abcd");
        paths.at(i) = gguf.write(dir, fmt::format("{}.gguf", i));
    }
    std::atomic<int> named{0};
    const auto read = [&](size_t i) {
        for (int round = 0; round < 100; round++) {
            const std::string message = refusal_of(paths.at(i))->message();
            named += message.find(keys.at(i)) != std::string::npos && message.find(keys.at(1 - i)) == std::string::npos;
        }
    };
    std::thread other(read, 1);
    read(0);
    other.join();
    EXPECT_EQ(named, 200);
}

} // namespace
} // namespace larder

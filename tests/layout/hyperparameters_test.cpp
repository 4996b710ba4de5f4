// Hyperparameters: impossible values are refused with their key; values that occur in real files are accepted.
#include "layout/gguf_builder.h"
#include "layout/layout.h"
#include "layout/refuses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace larder {
namespace {

constexpr uint32_t huge = 2147483648;

class Hyperparameters : public testing::Test {
  protected:
    using Add = std::function<void(GgufBuilder &)>;

    std::string model_with(const Add &add) {
        GgufBuilder gguf = small_moe();
        add(gguf);
        return gguf.write(dir);
    }
    std::string model_with(const std::string &key, uint32_t value) {
        return model_with([&](GgufBuilder &gguf) { gguf.key("testmoe." + key, value); });
    }
    void refused(const std::string &key, uint32_t value) {
        expect_refusal(model_with(key, value), fmt::format("key 'testmoe.{}' is {}", key, value));
    }
    void accepted(const std::string &path) {
        const std::optional<Error> error = refusal_of(path);
        EXPECT_FALSE(error) << error->what();
    }
    TempDir dir;
};

TEST_F(Hyperparameters, ThatLlamaCppDividesByAreNotZero) {
    refused("full_attention_interval", 0);
    accepted(model_with("full_attention_interval", 4));
}

TEST_F(Hyperparameters, OfRecurrentStatesFitTheTensors) {
    for (const char *key : {"ssm.inner_size", "ssm.state_size"}) {
        const auto value = [&](uint32_t size) {
            return model_with([&](GgufBuilder &gguf) {
                gguf.tensor("blk.0.ssm_out.weight", GGML_TYPE_F32, {48, 32}).key(fmt::format("testmoe.{}", key), size);
            });
        };
        for (const uint32_t size : {huge, 49U}) {
            expect_refusal(value(size), fmt::format("key 'testmoe.{}' is {}", key, size));
        }
        accepted(value(48));
        accepted(value(0));              // llama.cpp's writer uses 0 if an architecture has none
        accepted(model_with(key, 4096)); // the architecture does not read this key
    }
}

TEST_F(Hyperparameters, OfATimeMixAreNotZero) {
    const auto value = [&](uint32_t size) {
        return model_with([&](GgufBuilder &gguf) {
            gguf.tensor("blk.0.time_mix_key.weight", GGML_TYPE_F32, {32, 32}).key("testmoe.wkv.head_size", size);
        });
    };
    expect_refusal(value(0), "key 'testmoe.wkv.head_size' is 0");
    accepted(value(8));
    accepted(model_with("wkv.head_size", 0));
}

TEST_F(Hyperparameters, OfHeadsFitTheAttentionTensors) {
    for (const char *key : {"attention.head_count", "attention.head_count_kv", "attention.key_length",
                            "attention.value_length", "attention.key_length_swa", "attention.value_length_swa",
                            "attention.key_length_mla", "attention.value_length_mla", "rope.dimension_count"}) {
        refused(key, huge);
        refused(key, 34);
        accepted(model_with(key, 32));
        accepted(model_with(key, 0));
    }
}

TEST_F(Hyperparameters, OfALayerEachAreCheckedEach) {
    const auto heads = [](const std::vector<uint32_t> &values) {
        return [values](GgufBuilder &gguf) {
            gguf.key_array<uint32_t>("testmoe.attention.head_count_kv", GGUF_TYPE_UINT32, values);
        };
    };
    accepted(model_with(heads({0, 4})));
    expect_refusal(model_with(heads({4, huge})), "key 'testmoe.attention.head_count_kv' is 2147483648");
}

TEST_F(Hyperparameters, OfHeadsAreNotComparedWhereNothingAttends) {
    GgufBuilder gguf;
    gguf.key_text("general.architecture", "test").key("test.block_count", 1).key("test.attention.head_count", 64);
    gguf.tensor("blk.0.time_mix_key.weight", GGML_TYPE_F32, {32, 32});
    accepted(gguf.write(dir));
}

TEST_F(Hyperparameters, OfFeedForwardMayBeUnused) { accepted(model_with("feed_forward_length", 6144)); }

TEST_F(Hyperparameters, OfRotationAreEvenAndNotShareOutNothing) {
    refused("rope.dimension_count", 7);
    refused("rope.dimension_count_swa", 7);
    const auto sections = [](uint32_t count, const std::vector<int32_t> &values) {
        return [=](GgufBuilder &gguf) {
            gguf.key("testmoe.rope.dimension_count", count);
            gguf.key_array<int32_t>("testmoe.rope.dimension_sections", GGUF_TYPE_INT32, values);
        };
    };
    expect_refusal(model_with(sections(0, {6, 5, 5, 0})), "key 'testmoe.rope.dimension_count' is 0");
    accepted(model_with(sections(32, {6, 5, 5, 0})));
    accepted(model_with(sections(0, {0, 0, 0, 0}))); // no rotation
}

TEST_F(Hyperparameters, OfTheWindowAreATextsLength) {
    refused("attention.sliding_window", huge);
    refused("attention.sliding_window", (1U << 24U) + 1);
    accepted(model_with("attention.sliding_window", 262144)); // larger than the model's context
    const auto windowed = [](uint32_t window, const std::vector<uint8_t> &flags) {
        return [=](GgufBuilder &gguf) {
            gguf.key("testmoe.attention.sliding_window", window);
            gguf.key_array<uint8_t>("testmoe.attention.sliding_window_pattern", GGUF_TYPE_BOOL, flags);
        };
    };
    expect_refusal(model_with(windowed(0, {1, 0})), "key 'testmoe.attention.sliding_window' is 0");
    accepted(model_with(windowed(0, {0, 0})));
    accepted(model_with(windowed(128, {1, 0})));
}

TEST_F(Hyperparameters, OfExpertGroupsShareTheExpertsOut) {
    const auto groups = [](uint32_t count, uint32_t used) {
        return [=](GgufBuilder &gguf) {
            gguf.key("testmoe.expert_group_count", count).key("testmoe.expert_group_used_count", used);
        };
    };
    for (const uint32_t count : {3U, 4U, 5U, huge}) { // the model has 4 experts
        expect_refusal(model_with(groups(count, 1)), "key 'testmoe.expert_group_count'");
    }
    for (const uint32_t used : {0U, 2U, huge}) {
        expect_refusal(model_with(groups(2, used)), "key 'testmoe.expert_group_used_count'");
    }
    accepted(model_with(groups(2, 1)));
    accepted(model_with(groups(1, 1)));
    accepted(model_with(groups(0, 0)));
}

} // namespace
} // namespace larder

// A tensor that llama.cpp's loader treats as optional, but that its graph needs, is named before llama.cpp runs.
#include "layout/gguf_builder.h"
#include "layout/layout.h"
#include "layout/refuses.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace larder {
namespace {

class MissingTensors : public testing::Test {
  protected:
    // A model of one layer with these tensors. Expects an error that names `missing`, or none if it is empty.
    void layer_with(const std::vector<std::string> &tensors, const std::string &missing) {
        GgufBuilder gguf;
        gguf.key_text("general.architecture", "test").key("test.block_count", 1);
        for (const std::string &tensor : tensors) {
            gguf.tensor("blk.0." + tensor, GGML_TYPE_F32, {32, 32});
        }
        const std::string path = gguf.write(dir);
        if (missing.empty()) {
            EXPECT_FALSE(refusal_of(path));
        } else {
            expect_refusal(path, fmt::format("has no tensor 'blk.0.{}'", missing));
        }
    }
    TempDir dir;
};

TEST_F(MissingTensors, OfAGatedDeltaNetAreNamed) {
    layer_with({"ssm_conv1d.weight", "ssm_out.weight"}, "attn_qkv.weight");
    layer_with({"ssm_conv1d.weight", "ssm_out.weight", "attn_gate.weight"}, "attn_qkv.weight");
    layer_with({"ssm_conv1d.weight", "ssm_out.weight", "attn_qkv.weight"}, "attn_gate.weight");
    layer_with({"ssm_conv1d.weight", "ssm_out.weight", "attn_qkv.weight", "attn_gate.weight"}, "");
    layer_with({"ssm_conv1d.weight", "ssm_out.weight", "ssm_in.weight"}, ""); // the first Qwen3-Next
}

TEST_F(MissingTensors, OfMamba2AreNamed) {
    const std::vector<std::string> mamba_2 = {"ssm_conv1d.weight", "ssm_in.weight", "ssm_out.weight", "ssm_d"};
    layer_with(mamba_2, "ssm_conv1d.bias");
    std::vector<std::string> whole = mamba_2;
    whole.emplace_back("ssm_conv1d.bias");
    layer_with(whole, "");
    std::vector<std::string> plamo_2 = mamba_2;
    plamo_2.emplace_back("ssm_x.weight");
    layer_with(plamo_2, "");
}

TEST_F(MissingTensors, AreNotAskedOfOtherLayers) {
    // One convolution for each of q and k.
    layer_with({"ssm_conv1d_q.weight", "ssm_conv1d_k.weight", "attn_q.weight"}, "");
    layer_with({"shortconv.conv.weight"}, "");
    layer_with({"attn_output.weight"}, "");
}

} // namespace
} // namespace larder

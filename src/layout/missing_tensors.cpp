#include "layout/missing_tensors.h"

#include "layout/refusal.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace larder {

namespace {

class Layer {
  public:
    Layer(const ModelLayout &layout, uint32_t number) : layout_(layout), number_(number) {}

    // `tensor` is a name within this layer: "ssm_in.weight".
    [[nodiscard]] bool has(std::string_view tensor) const { return layout_.find(name_of(tensor)) != nullptr; }

    void require(std::string_view tensor) const {
        if (!has(tensor)) {
            throw refusal(layout_.files.front(), fmt::format("has no tensor '{}'", name_of(tensor)), download_again);
        }
    }

  private:
    [[nodiscard]] std::string name_of(std::string_view tensor) const {
        return fmt::format("blk.{}.{}", number_, tensor);
    }

    const ModelLayout &layout_;
    uint32_t number_;
};

// The input of a convolution over the sequence comes from a projection of its own (Mamba, the first files of
// Qwen3-Next), or from the projection of queries, keys and values, and then there is a projection for the gate too
// (gated delta nets). Mamba-2 has ssm_d but not the ssm_x of Mamba-1 and PLaMo-2; it adds a bias to the convolution.
void check_convolution(const Layer &layer) {
    if (!layer.has("ssm_in.weight")) {
        layer.require("attn_qkv.weight");
        layer.require("attn_gate.weight");
    } else if (layer.has("ssm_d") && !layer.has("ssm_x.weight")) {
        layer.require("ssm_conv1d.bias");
    }
}

} // namespace

void check_missing_tensors(const ModelLayout &layout) {
    for (const uint32_t number : layout.recurrent_layers) {
        const Layer layer(layout, number);
        if (layer.has("ssm_conv1d.weight")) {
            check_convolution(layer);
        }
    }
}

} // namespace larder

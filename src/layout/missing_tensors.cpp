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

    // "ssm_in.weight", of this layer.
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

// A convolution over the sequence has its input from one projection (Mamba, the first files of Qwen3-Next), or from
// that of queries, keys and values, with a projection of the gate beside it (gated delta nets). Mamba-2, which has
// ssm_d but not the ssm_x of Mamba-1 and PLaMo-2, adds a bias to it.
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

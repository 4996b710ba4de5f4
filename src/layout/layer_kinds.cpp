#include "layout/layer_kinds.h"

#include "layout/classify.h"

#include <algorithm>
#include <map>

namespace larder {

namespace {

// The kind of a layer is derived from its tensors. Keys such as full_attention_interval and attention.recurrent_layers
// contain it too, but not every file has them, and in some files they are wrong.
struct LayerTensors {
    bool attention = false; // projections for queries or keys
    bool recurrent = false; // any part of an SSM, a short convolution or a time mix
    bool own_input = false; // an SSM with an input projection of its own
};

bool is_attention_projection(std::string_view stem) {
    for (const std::string_view part :
         {"attn_q", "attn_q_a", "attn_q_b", "attn_qkv", "attn_k", "attn_kv_a_mqa", "attn_kv"}) {
        if (stem == part) {
            return true;
        }
    }
    return false;
}

std::map<uint32_t, LayerTensors> tensors_by_layer(const ModelLayout &layout) {
    std::map<uint32_t, LayerTensors> layers;
    for (const TensorInfo &tensor : layout.tensors) {
        if (tensor.layer < 0 || tensor.layer >= static_cast<int>(layout.n_layer)) {
            continue;
        }
        LayerTensors &layer = layers[static_cast<uint32_t>(tensor.layer)];
        const std::string_view stem = parse_tensor_name(tensor.name).stem;
        layer.attention |= is_attention_projection(stem);
        layer.recurrent |= tensor.kind == TensorKind::ssm;
        layer.own_input |= stem == "ssm_in";
    }
    return layers;
}

// Linear attention also uses the names attn_q and attn_qkv for its projections. So a layer with a recurrent part has
// attention too only if the recurrent part has an input projection of its own.
bool attends(const LayerTensors &layer) { return layer.attention && (!layer.recurrent || layer.own_input); }

// The layers with a sliding window. The key is either one flag per layer, or a period whose last layer has full
// attention. Empty if the key is absent: the architecture determines it then.
std::vector<bool> window_flags(const ModelLayout &layout, const Metadata &keys) {
    const std::string key = layout.architecture + ".attention.sliding_window_pattern";
    std::vector<bool> flags;
    if (keys.is_array(key)) {
        for (const uint64_t flag : keys.numbers(key, layers_max)) {
            flags.push_back(flag != 0);
        }
        flags.resize(layout.n_layer);
    } else if (const std::optional<uint64_t> period = keys.number(key)) {
        for (uint32_t layer = 0; layer < layout.n_layer; layer++) {
            flags.push_back(*period == 0 || layer % *period < *period - 1);
        }
    }
    return flags;
}

} // namespace

void add_layer_kinds(ModelLayout &layout, const Metadata &keys) {
    layout.sliding_window = keys.number(layout.architecture + ".attention.sliding_window").value_or(0);
    std::vector<bool> windowed(layout.n_layer);
    if (layout.sliding_window > 0) {
        windowed = window_flags(layout, keys);
        windowed.resize(layout.n_layer);
    }
    for (const auto &[layer, tensors] : tensors_by_layer(layout)) {
        if (attends(tensors)) {
            (windowed[layer] ? layout.windowed_layers : layout.full_attention_layers).push_back(layer);
        }
        if (tensors.recurrent) {
            layout.recurrent_layers.push_back(layer);
        }
    }
}

} // namespace larder

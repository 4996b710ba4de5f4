#include "layout/account.h"

#include "layout/classify.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace larder {

namespace {

// The expert tensors of one MoE layer.
struct MoeLayer {
    uint32_t layer = 0;
    uint64_t expert_bytes = 0;
    uint64_t n_expert = 0;
    uint64_t n_expert_used = 0;
};

std::vector<MoeLayer> moe_layers_of(const ModelLayout &layout) {
    std::map<uint32_t, MoeLayer> moe_layers;
    for (const ExpertTensor &expert : layout.expert_tensors) {
        MoeLayer &moe_layer = moe_layers[expert.moe_layer];
        moe_layer.layer = expert.layer;
        moe_layer.n_expert = expert.n_expert;
        moe_layer.n_expert_used = expert.n_expert_used;
        moe_layer.expert_bytes += expert.slice_bytes;
    }
    std::vector<MoeLayer> in_order;
    for (const auto &[number, moe_layer] : moe_layers) {
        in_order.push_back(moe_layer);
    }
    return in_order;
}

void append_once(std::vector<uint32_t> &layers, uint32_t layer) {
    if (layers.empty() || layers.back() != layer) {
        layers.push_back(layer);
    }
}

void add_resident(WeightAccount &account, const ModelLayout &layout) {
    for (const TensorKind kind : {TensorKind::embedding, TensorKind::head, TensorKind::attention, TensorKind::ssm,
                                  TensorKind::shared_expert, TensorKind::router, TensorKind::norm, TensorKind::other}) {
        uint64_t bytes = 0;
        for (const TensorInfo &tensor : layout.tensors) {
            bytes += tensor.kind == kind ? tensor.extent.bytes : 0;
        }
        account.resident_by_kind.emplace_back(kind, bytes);
    }
}

void add_sizes(WeightAccount &account, const std::vector<MoeLayer> &moe_layers) {
    std::map<uint64_t, ExpertSize> sizes;
    for (const MoeLayer &moe_layer : moe_layers) {
        ExpertSize &size = sizes[moe_layer.expert_bytes];
        size.expert_bytes = moe_layer.expert_bytes;
        size.n_expert += moe_layer.n_expert;
        append_once(size.layers, moe_layer.layer);
        append_once(account.expert_layers, moe_layer.layer);
    }
    for (const auto &[bytes, size] : sizes) {
        account.expert_sizes.push_back(size);
    }
}

void add_slices(WeightAccount &account, const ModelLayout &layout) {
    std::map<std::tuple<bool, Projection, uint64_t, std::string>, SliceFormat> formats;
    for (const ExpertTensor &expert : layout.expert_tensors) {
        const TensorInfo &tensor = layout.tensors[expert.tensor];
        const bool chunk = parse_expert_name(tensor.name)->chunk;
        SliceFormat &format = formats[{chunk, expert.projection, expert.slice_bytes, tensor.type_name}];
        format.projection = fmt::format("{}{}", to_string(expert.projection), chunk ? " (chunk)" : "");
        format.type = tensor.type_name;
        format.slice_bytes = expert.slice_bytes;
        append_once(format.layers, expert.layer);
    }
    for (const auto &[key, format] : formats) {
        account.slices.push_back(format);
    }
}

void add_working_set(WeightAccount &account, const ModelLayout &layout, const std::vector<MoeLayer> &moe_layers) {
    std::map<uint32_t, uint64_t> by_layer;
    for (const MoeLayer &moe_layer : moe_layers) {
        by_layer[moe_layer.layer] += moe_layer.n_expert_used * moe_layer.expert_bytes;
    }
    uint64_t sum = 0;
    uint64_t n_own_layer = 0;
    for (const auto &[layer, bytes] : by_layer) {
        sum += bytes;
        account.layer_bytes_max = std::max(account.layer_bytes_max, bytes);
        n_own_layer += layer < layout.n_layer - layout.n_layer_nextn ? 1 : 0;
    }
    account.layer_bytes_mean = by_layer.empty() ? 0 : sum / by_layer.size();
    account.token_bytes = layout.token_bytes;
    account.token_bytes_max = std::max(layout.token_bytes, n_own_layer * account.layer_bytes_max);
}

} // namespace

WeightAccount account_of(const ModelLayout &layout) {
    WeightAccount account;
    account.total_bytes = layout.total_bytes;
    account.routed_bytes = layout.routed_bytes;
    account.resident_bytes = layout.resident_bytes;
    const std::vector<MoeLayer> moe_layers = moe_layers_of(layout);
    add_resident(account, layout);
    add_sizes(account, moe_layers);
    add_slices(account, layout);
    add_working_set(account, layout, moe_layers);
    return account;
}

std::string format_layers(std::span<const uint32_t> layers) {
    std::string text;
    for (size_t first = 0; first < layers.size();) {
        size_t last = first;
        while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) {
            last++;
        }
        text += text.empty() ? "" : ", ";
        text += last == first ? fmt::format("{}", layers[first]) : fmt::format("{}-{}", layers[first], layers[last]);
        first = last + 1;
    }
    return text.empty() ? "-" : text;
}

} // namespace larder

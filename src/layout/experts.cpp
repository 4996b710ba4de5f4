#include "layout/experts.h"

#include "base/bytes.h"
#include "base/check.h"
#include "layout/classify.h"
#include "layout/refusal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace larder {

namespace {

// The number of experts that the router chooses, for each layer. Most models have one number for all layers.
std::vector<uint32_t> read_top_k(const ModelLayout &layout, const Metadata &keys) {
    const std::string key = layout.architecture + ".expert_used_count";
    std::vector<uint64_t> counts;
    if (keys.is_array(key)) {
        counts = keys.numbers(key, layers_max);
        counts.resize(layout.n_layer);
    } else {
        counts.assign(layout.n_layer, keys.number(key).value_or(0));
    }
    std::vector<uint32_t> top_k;
    for (const uint64_t count : counts) {
        if (count > layout.n_expert) {
            throw refusal(keys.path(),
                          fmt::format("key '{}' is {}, but there are {} experts", key, count, layout.n_expert),
                          convert_again);
        }
        top_k.push_back(static_cast<uint32_t>(count));
    }
    if (layout.n_expert > 0 && std::ranges::max(top_k) == 0) {
        throw refusal(keys.path(), fmt::format("key '{}' is 0, but there are {} experts", key, layout.n_expert),
                      convert_again);
    }
    return top_k;
}

// Files of early 2024 have one tensor per expert: "blk.0.ffn_gate.0.weight". llama.cpp no longer reads them.
void refuse_single_experts(const ModelLayout &layout) {
    for (const TensorInfo &tensor : layout.tensors) {
        if (is_single_expert(tensor.name)) {
            throw refusal(layout.files[tensor.extent.file],
                          fmt::format("holds its experts one by one ('{}'), an old form of GGUF", tensor.name),
                          "get a newer GGUF of the model, or convert it again");
        }
    }
}

void check_shape(const ModelLayout &layout, const TensorInfo &tensor, bool chunk) {
    const auto &path = layout.files[tensor.extent.file];
    if (layout.n_expert == 0) {
        throw refusal(
            path,
            fmt::format("holds expert tensor '{}' but no key '{}.expert_count'", tensor.name, layout.architecture),
            convert_again);
    }
    const int64_t n_stacked = tensor.shape[2];
    const bool right_count = chunk ? n_stacked >= 1 && n_stacked <= layout.n_expert : n_stacked == layout.n_expert;
    if (!right_count || tensor.shape[3] != 1) {
        throw refusal(path,
                      fmt::format("tensor '{}' of shape {} does not stack the model's {} experts", tensor.name,
                                  fmt::join(tensor.shape, " x "), layout.n_expert),
                      convert_again);
    }
    if (tensor.extent.bytes == 0) {
        throw refusal(path, fmt::format("tensor '{}' is empty", tensor.name), convert_again);
    }
    if (tensor.layer >= static_cast<int>(layout.n_layer)) {
        throw refusal(path, fmt::format("tensor '{}' lies beyond the model's {} layers", tensor.name, layout.n_layer),
                      convert_again);
    }
}

ExpertTensor describe(const ModelLayout &layout, size_t index, const std::vector<uint32_t> &top_k) {
    const TensorInfo &tensor = layout.tensors[index];
    const ExpertName name = *parse_expert_name(tensor.name);
    check_shape(layout, tensor, name.chunk);
    ExpertTensor expert;
    expert.tensor = static_cast<uint32_t>(index);
    expert.layer = static_cast<uint32_t>(tensor.layer);
    expert.moe_layer = expert.layer * 2 + (name.chunk ? 1 : 0); // unique; renumbered later
    expert.projection = name.projection;
    expert.n_expert = static_cast<uint32_t>(tensor.shape[2]);
    expert.n_expert_used = std::min(top_k[expert.layer], expert.n_expert);
    if (expert.n_expert_used == 0) {
        throw refusal(layout.files[tensor.extent.file],
                      fmt::format("layer {} has experts, but uses none of them", expert.layer), convert_again);
    }
    expert.slice_bytes = tensor.extent.bytes / expert.n_expert;
    LARDER_CHECK(expert.slice_bytes * expert.n_expert == tensor.extent.bytes);
    return expert;
}

void refuse_doubles(const ModelLayout &layout) {
    std::set<std::pair<uint32_t, Projection>> seen;
    for (const ExpertTensor &expert : layout.expert_tensors) {
        if (!seen.emplace(expert.moe_layer, expert.projection).second) {
            const TensorInfo &tensor = layout.tensors[expert.tensor];
            throw refusal(layout.files[tensor.extent.file],
                          fmt::format("tensor '{}' is in layer {} twice", tensor.name, expert.layer), convert_again);
        }
    }
}

void number_moe_layers_and_slices(ModelLayout &layout) {
    std::map<uint32_t, uint32_t> numbers;
    uint64_t n_slice = 0;
    for (ExpertTensor &expert : layout.expert_tensors) {
        expert.moe_layer = numbers.try_emplace(expert.moe_layer, static_cast<uint32_t>(numbers.size())).first->second;
        expert.first_slice = static_cast<uint32_t>(n_slice);
        n_slice += expert.n_expert;
    }
    LARDER_CHECK(n_slice <= std::numeric_limits<uint32_t>::max()); // at most 512 layers x 8 tensors x 1024 experts
    layout.n_slice = static_cast<uint32_t>(n_slice);
}

// The largest window of a slice of this tensor. The offset of a slice modulo the alignment repeats after at most
// direct_io_alignment slices.
uint64_t widest_window(const ModelLayout &layout, const ExpertTensor &expert) {
    uint64_t widest = 0;
    const auto n = std::min<uint64_t>(expert.n_expert, direct_io_alignment);
    for (uint32_t e = 0; e < n; e++) {
        widest = std::max(widest, window_of(layout.slice_extent(expert, e)).bytes);
    }
    return widest;
}

// A pass runs either the model's own layers or one of its prediction layers, never both. So the need of one token is
// the larger of the sums of `value_of`.
template <typename ValueOf> uint64_t largest_pass(const ModelLayout &layout, ValueOf value_of) {
    const uint32_t n_own_layer = layout.n_layer - layout.n_layer_nextn;
    std::map<uint32_t, uint64_t> passes; // key 0: the model's own layers; other keys: a prediction layer
    for (const ExpertTensor &expert : layout.expert_tensors) {
        passes[expert.layer < n_own_layer ? 0 : expert.layer] += value_of(expert);
    }
    uint64_t largest = 0;
    for (const auto &[first_layer, sum] : passes) {
        largest = std::max(largest, sum);
    }
    return largest;
}

void add_size_classes(ModelLayout &layout) {
    std::map<uint64_t, SizeClass> classes;
    for (const ExpertTensor &expert : layout.expert_tensors) {
        SizeClass &size_class = classes[expert.slice_bytes];
        size_class.slice_bytes = expert.slice_bytes;
        size_class.slot_bytes = std::max(size_class.slot_bytes, widest_window(layout, expert));
        size_class.n_slices += expert.n_expert;
    }
    for (auto &entry : classes) {
        SizeClass &size_class = entry.second;
        size_class.n_slices_per_token = largest_pass(layout, [&](const ExpertTensor &expert) -> uint64_t {
            return expert.slice_bytes == size_class.slice_bytes ? expert.n_expert_used : 0;
        });
        layout.size_classes.push_back(size_class);
    }
    for (ExpertTensor &expert : layout.expert_tensors) {
        const auto found = classes.find(expert.slice_bytes);
        expert.size_class = static_cast<uint32_t>(std::distance(classes.begin(), found));
    }
}

} // namespace

void add_experts(ModelLayout &layout, const Metadata &keys) {
    refuse_single_experts(layout);
    const std::string count_key = layout.architecture + ".expert_count";
    layout.n_expert = keys.number(count_key) ? keys.required_number(count_key, 0, experts_max) : 0;
    const std::vector<uint32_t> top_k = read_top_k(layout, keys);
    layout.n_expert_used = std::ranges::max(top_k);
    for (size_t i = 0; i < layout.tensors.size(); i++) {
        if (layout.tensors[i].kind == TensorKind::routed_expert) {
            layout.expert_tensors.push_back(describe(layout, i, top_k));
        }
    }
    std::ranges::stable_sort(layout.expert_tensors, {}, &ExpertTensor::layer);
    refuse_doubles(layout);
    number_moe_layers_and_slices(layout);
    add_size_classes(layout);
    layout.token_bytes = largest_pass(
        layout, [](const ExpertTensor &expert) { return uint64_t{expert.n_expert_used} * expert.slice_bytes; });
}

} // namespace larder

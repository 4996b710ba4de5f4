#include "layout/layout.h"

#include "base/bytes.h"
#include "base/check.h"
#include "layout/classify.h"
#include "layout/experts.h"
#include "layout/hyperparameters.h"
#include "layout/layer_kinds.h"
#include "layout/metadata.h"
#include "layout/missing_tensors.h"
#include "layout/refusal.h"
#include "layout/shards.h"
#include "layout/types.h"
#include "layout/vocabulary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace larder {

namespace {

// The size of a contiguous tensor. ggml's reader does not check its multiplications for overflow.
uint64_t tensor_bytes(const TensorInfo &tensor, const std::string &path) {
    const auto type = static_cast<ggml_type>(tensor.type);
    auto bytes = static_cast<uint64_t>(tensor.shape[0]) / static_cast<uint64_t>(ggml_blck_size(type));
    bool overflow = __builtin_mul_overflow(bytes, static_cast<uint64_t>(ggml_type_size(type)), &bytes);
    for (size_t dim = 1; dim < tensor.shape.size(); dim++) {
        overflow |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(tensor.shape[dim]), &bytes);
    }
    if (overflow) {
        throw refusal(
            path, fmt::format("tensor '{}' has an impossible size: {}", tensor.name, fmt::join(tensor.shape, " x ")));
    }
    return bytes;
}

void check_extent(const TensorInfo &tensor, const GgufFile &file) {
    uint64_t end = 0;
    if (__builtin_add_overflow(tensor.extent.offset, tensor.extent.bytes, &end) || end > file.bytes()) {
        throw refusal(file.path, fmt::format("tensor '{}' ({} bytes at {}) ends past the end of the file ({} bytes)",
                                             tensor.name, tensor.extent.bytes, tensor.extent.offset, file.bytes()));
    }
}

TensorInfo read_tensor(const GgufFile &file, uint32_t file_index, int64_t id) {
    const gguf_context *context = file.context.get();
    const ggml_type type = gguf_get_tensor_type(context, id);
    TensorInfo tensor;
    tensor.name = gguf_get_tensor_name(context, id);
    tensor.type = type;
    tensor.type_name = ggml_type_name(type);
    std::copy_n(gguf_get_tensor_ne(context, id), tensor.shape.size(), tensor.shape.begin());
    tensor.extent.file = file_index;
    tensor.extent.bytes = tensor_bytes(tensor, file.path);
    if (__builtin_add_overflow(gguf_get_data_offset(context), gguf_get_tensor_offset(context, id),
                               &tensor.extent.offset)) {
        throw refusal(file.path, fmt::format("tensor '{}' has an impossible offset", tensor.name));
    }
    check_extent(tensor, file);
    tensor.kind = classify(tensor.name);
    tensor.layer = parse_tensor_name(tensor.name).layer;
    return tensor;
}

void add_files_and_tensors(ModelLayout &layout, const Shards &shards) {
    for (const GgufFile &file : shards.files) {
        const auto file_index = static_cast<uint32_t>(layout.files.size());
        layout.files.push_back(file.path);
        layout.file_bytes.push_back(file.bytes());
        layout.identities.push_back(file.identity);
        for (int64_t id = 0; id < gguf_get_n_tensors(file.context.get()); id++) {
            layout.tensors.push_back(read_tensor(file, file_index, id));
            const TensorInfo &tensor = layout.tensors.back();
            layout.total_bytes += tensor.extent.bytes;
            layout.routed_bytes += tensor.kind == TensorKind::routed_expert ? tensor.extent.bytes : 0;
        }
    }
    layout.resident_bytes = layout.total_bytes - layout.routed_bytes;
    layout.index_tensors();
}

std::string read_architecture(const Metadata &keys) {
    const std::optional<std::string> architecture = keys.text("general.architecture");
    if (!architecture) {
        throw refusal(keys.path(), "has no key 'general.architecture'", "give a language model in GGUF format");
    }
    if (*architecture == "clip") {
        throw refusal(keys.path(), "is a vision projector, not a language model",
                      "give the language model's GGUF with -m");
    }
    // It is part of key names. llama.cpp knows only short words.
    constexpr size_t characters_max = 64;
    if (architecture->empty() || printable(*architecture, characters_max) != *architecture) {
        throw refusal(keys.path(),
                      fmt::format("key 'general.architecture' is '{}', which does not name an architecture",
                                  printable(*architecture, quoted_characters_max)),
                      "give a language model in GGUF format");
    }
    return *architecture;
}

void add_shape(ModelLayout &layout, const Metadata &keys) {
    const std::string prefix = layout.architecture + ".";
    layout.name = printable(keys.text("general.name").value_or(""), quoted_characters_max);
    layout.n_layer = keys.required_number(prefix + "block_count", 1, layers_max);
    layout.context_length = keys.number(prefix + "context_length").value_or(0);
    const std::string nextn_key = prefix + "nextn_predict_layers";
    if (keys.number(nextn_key)) {
        layout.n_layer_nextn = keys.required_number(nextn_key, 0, layout.n_layer);
    }
}

} // namespace

Window window_of(const Extent &extent) {
    Window window;
    window.offset = align_down(extent.offset, direct_io_alignment);
    window.skew = extent.offset - window.offset;
    window.bytes = align_up(window.skew + extent.bytes, direct_io_alignment);
    return window;
}

const TensorInfo *ModelLayout::find(std::string_view tensor_name) const {
    LARDER_CHECK(tensors_by_name.size() == tensors.size());
    const auto name_of = [this](uint32_t index) { return std::string_view(tensors[index].name); };
    const auto found = std::ranges::lower_bound(tensors_by_name, tensor_name, {}, name_of);
    return found == tensors_by_name.end() || name_of(*found) != tensor_name ? nullptr : &tensors[*found];
}

void ModelLayout::index_tensors() {
    tensors_by_name.resize(tensors.size());
    std::iota(tensors_by_name.begin(), tensors_by_name.end(), 0U);
    std::ranges::sort(tensors_by_name, {}, [this](uint32_t index) { return std::string_view(tensors[index].name); });
}

Extent ModelLayout::slice_extent(const ExpertTensor &tensor, uint32_t expert) const {
    const Extent &whole = tensors[tensor.tensor].extent;
    return {whole.file, whole.offset + uint64_t{expert} * tensor.slice_bytes, tensor.slice_bytes};
}

ModelLayout open_layout(const std::string &path) {
    const Shards shards = read_shards(path);
    const Metadata keys(shards.metadata.get(), shards.files.front().path);
    ModelLayout layout;
    layout.metadata = shards.metadata;
    layout.architecture = read_architecture(keys);
    add_shape(layout, keys);
    add_files_and_tensors(layout, shards);
    if (layout.tensors.empty()) {
        throw refusal(keys.path(), "holds no weights, only metadata", "give a complete language model in GGUF format");
    }
    add_experts(layout, keys);
    add_layer_kinds(layout, keys);
    check_types(layout);
    check_missing_tensors(layout);
    check_hyperparameters(layout, keys);
    check_vocabulary(layout, keys);
    return layout;
}

} // namespace larder

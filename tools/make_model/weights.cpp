#include "weights.h"

#include "base/check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace larder::make_model {
namespace {

constexpr size_t piece_elements = size_t{1} << 20; // elements that the sink gets at once
constexpr size_t pool_elements = size_t{1} << 18;
constexpr size_t pool_elements_slow = size_t{1} << 17; // for types that are quantised by searching a codebook
constexpr size_t direct_elements_max = size_t{1} << 19;

size_t pool_size(ggml_type type) {
    const bool slow =
        type == GGML_TYPE_IQ2_XS || type == GGML_TYPE_IQ3_S || type == GGML_TYPE_IQ4_XS || type == GGML_TYPE_IQ4_NL;
    return slow ? pool_elements_slow : pool_elements;
}

// Some types can only be quantised with an importance for each column. All columns get the same.
std::vector<float> importance(ggml_type type, size_t row) {
    return ggml_quantize_requires_imatrix(type) ? std::vector<float>(row, 1.0F) : std::vector<float>();
}

} // namespace

// Distributions for vectors and small tensors, by name. Matrices are handled at the end.
Distribution full_strength(const TensorShape &tensor, bool small_embedding) {
    const std::string_view name = tensor.name;
    const auto row = static_cast<float>(tensor.extent[0]);
    const auto ends = [name](std::string_view suffix) { return name.ends_with(suffix); };

    if (ends("norm.weight") || ends("norm_1.weight") || ends("norm_2.weight")) {
        return {1.0F, 0.1F};
    }
    if (ends(".ssm_a")) {
        return {-2.0F, 0.5F}; // a state decays: always negative, because values stay within 3.47 deviations
    }
    if (ends(".ssm_dt.bias")) {
        return {-2.5F, 0.5F}; // its softplus is the step, about 0.1
    }
    if (ends(".ffn_gate_inp.scale")) {
        return {std::sqrt(row), 0.1F * std::sqrt(row)}; // reverses a division by the square root of the row's length
    }
    if (ends(".scale") || ends(".layer_output_scale.weight")) {
        return {1.0F, 0.1F};
    }
    if (name == "rope_freqs.weight") {
        return {1.0F, 0.0F};
    }
    if (ends(".attn_sinks.weight")) {
        return {0.0F, 1.0F};
    }
    if (ends(".bias")) {
        return {0.0F, 0.1F};
    }
    if (name == "token_embd.weight") {
        return {0.0F, small_embedding ? 1.0F / std::sqrt(row) : 1.0F};
    }
    // A matrix that preserves the magnitude of its input. The router has a higher gain, so that its choice is clear and
    // differs by token. The outputs of the experts have one too, so that a wrong expert changes the result visibly.
    float gain = 1.0F;
    if (ends(".ffn_gate_inp.weight")) {
        gain = 3.0F;
    } else if (ends(".ffn_down_exps.weight") || name == "output.weight") {
        gain = 2.0F;
    }
    return {0.0F, gain / std::sqrt(row)};
}

void quantize(ggml_type type, std::span<const float> values, size_t row, std::vector<std::byte> &bytes) {
    const size_t rows = values.size() / row;
    bytes.resize(rows * ggml_row_size(type, static_cast<int64_t>(row)));
    const std::vector<float> columns = importance(type, row);
    const size_t written = ggml_quantize_chunk(type, values.data(), bytes.data(), 0, static_cast<int64_t>(rows),
                                               static_cast<int64_t>(row), columns.empty() ? nullptr : columns.data());
    LARDER_CHECK(written == bytes.size());
}

Random::Random(uint64_t seed, std::string_view name) : state_(seed) {
    for (const char c : name) {
        state_ ^= static_cast<unsigned char>(c);
        state_ = next();
    }
}

size_t Tensor::elements() const {
    size_t count = 1;
    for (const int64_t extent : shape.extent) {
        count *= static_cast<size_t>(extent);
    }
    return count;
}

size_t Tensor::bytes() const {
    const auto row = static_cast<size_t>(shape.extent[0]);
    return elements() / row * ggml_row_size(type, shape.extent[0]);
}

void Weights::generate(const Tensor &tensor, const Sink &sink) {
    const Distribution distribution = distribution_of_(tensor.shape);
    const Random random(seed_, tensor.shape.name);
    // Rows of few blocks from the pool are often equal. This is only a problem where it makes two tokens equal.
    const bool row_is_token = tensor.shape.name == "token_embd.weight" || tensor.shape.name == "output.weight";
    const bool rows_differ = !row_is_token || tensor.shape.extent[0] >= 4 * ggml_blck_size(tensor.type);
    const bool large = tensor.elements() > direct_elements_max && rows_differ;
    if (tensor.shape.name.ends_with("_exps.weight") || large) {
        generate_from_pool(tensor, distribution, random, sink);
    } else {
        generate_directly(tensor, distribution, random, sink);
    }
}

void Weights::generate_directly(const Tensor &tensor, Distribution distribution, Random random, const Sink &sink) {
    const auto row = static_cast<size_t>(tensor.shape.extent[0]);
    const size_t piece_rows = std::max<size_t>(piece_elements / row, 1);
    std::vector<float> values;
    std::vector<std::byte> bytes;
    for (size_t left = tensor.elements() / row; left > 0;) {
        const size_t rows = std::min(left, piece_rows);
        values.resize(rows * row);
        std::ranges::generate(values, [&] { return random.normal(distribution); });
        quantize(tensor.type, values, row, bytes);
        sink(bytes);
        left -= rows;
    }
}

void Weights::generate_from_pool(const Tensor &tensor, Distribution distribution, Random random, const Sink &sink) {
    const auto row = static_cast<size_t>(tensor.shape.extent[0]);
    const auto block = static_cast<size_t>(ggml_blck_size(tensor.type));
    const size_t wide = std::max<size_t>(block, 64); // larger chunks for types with small blocks, to copy fewer of them
    const Pool &source = pool(tensor.type, row % wide == 0 ? wide : block, distribution);
    const size_t pool_chunks = source.chunks.size() / source.chunk_bytes;

    std::vector<std::byte> piece;
    for (size_t left = tensor.elements() / source.chunk_elements; left > 0;) {
        const size_t chunks = std::min(left, piece_elements / source.chunk_elements);
        piece.resize(chunks * source.chunk_bytes);
        for (size_t i = 0; i < chunks; ++i) {
            const size_t from = random.below(pool_chunks) * source.chunk_bytes;
            std::memcpy(piece.data() + i * source.chunk_bytes, source.chunks.data() + from, source.chunk_bytes);
        }
        sink(piece);
        left -= chunks;
    }
}

const Weights::Pool &Weights::pool(ggml_type type, size_t chunk_elements, Distribution distribution) {
    const auto [at, added] = pools_.try_emplace({type, chunk_elements, distribution.stddev});
    Pool &pool = at->second;
    if (added) {
        pool.chunk_elements = chunk_elements;
        pool.chunk_bytes = ggml_row_size(type, static_cast<int64_t>(chunk_elements));
        Random random(seed_, ggml_type_name(type));
        std::vector<float> values(pool_size(type) / chunk_elements * chunk_elements);
        std::ranges::generate(values, [&] { return random.normal(distribution); });
        quantize(type, values, chunk_elements, pool.chunks);
    }
    return pool;
}

} // namespace larder::make_model

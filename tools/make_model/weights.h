// weights.h — random weights, of which tools write as many as they like at the disk's speed.
#pragma once

#include "random.h"
#include "tensor_list.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace larder::make_model {

struct Tensor {
    TensorShape shape;
    ggml_type type;

    [[nodiscard]] size_t elements() const;
    [[nodiscard]] size_t bytes() const;
};

using Sink = std::function<void(std::span<const std::byte>)>;

// Weights at full strength: every expert matters to the logits, and the logits stay finite.
// `small_embedding`: see Architecture.
Distribution full_strength(const TensorShape &tensor, bool small_embedding);

// Values to blocks of `type`, in rows of `row` values. `bytes` is replaced.
void quantize(ggml_type type, std::span<const float> values, size_t row, std::vector<std::byte> &bytes);

// Makes the bytes of tensors, equal for equal seeds. Quantising is slow, so large tensors are made of blocks drawn from
// a pool that was quantised once for each type and scale; small ones get weights of their own.
class Weights {
  public:
    using DistributionOf = std::function<Distribution(const TensorShape &)>;

    Weights(uint64_t seed, DistributionOf distribution_of)
        : seed_(seed), distribution_of_(std::move(distribution_of)) {}

    // Hands the tensor's bytes to `sink`, in order and in pieces of bounded size.
    void generate(const Tensor &tensor, const Sink &sink);

  private:
    struct Pool {
        size_t chunk_elements;
        size_t chunk_bytes;
        std::vector<std::byte> chunks;
    };

    void generate_directly(const Tensor &tensor, Distribution distribution, Random random, const Sink &sink);
    void generate_from_pool(const Tensor &tensor, Distribution distribution, Random random, const Sink &sink);
    const Pool &pool(ggml_type type, size_t chunk_elements, Distribution distribution);

    uint64_t seed_;
    DistributionOf distribution_of_;
    std::map<std::tuple<ggml_type, size_t, float>, Pool> pools_;
};

} // namespace larder::make_model

// weights.h — random weights, generated in any amount at the speed of the disk.
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

// A distribution with which every expert affects the logits and the logits stay finite. `small_embedding`: see
// Architecture.
Distribution full_strength(const TensorShape &tensor, bool small_embedding);

// Quantises `values` to blocks of `type`, in rows of `row` values. Replaces `bytes`.
void quantize(ggml_type type, std::span<const float> values, size_t row, std::vector<std::byte> &bytes);

// Generates the bytes of tensors; equal seeds give equal bytes. Quantising is slow, so large tensors consist of blocks
// drawn from a pool that is quantised once for each type and scale. Small tensors get individual weights.
class Weights {
  public:
    using DistributionOf = std::function<Distribution(const TensorShape &)>;

    Weights(uint64_t seed, DistributionOf distribution_of)
        : seed_(seed), distribution_of_(std::move(distribution_of)) {}

    // Passes the tensor's bytes to `sink`, in order and in pieces of bounded size.
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

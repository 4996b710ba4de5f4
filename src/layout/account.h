// account.h — a summary of a model's weights: bytes that must stay in RAM, bytes that can be streamed, and the bytes
// that one token needs.
//
// A pure function of the layout, for `larder inspect` and for code that needs figures by kind or by layer. Units:
// bytes. Layers are in ascending order.
#pragma once

#include "layout/layout.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace larder {

// All experts of one size, and the layers that have them.
struct ExpertSize {
    uint64_t expert_bytes = 0; // the sum of its slices
    uint64_t n_expert = 0;     // in the whole model
    std::vector<uint32_t> layers;
};

// The quantisation of one projection of the routed experts in these layers.
struct SliceFormat {
    std::string projection; // "gate"; "gate (chunk)" for experts that several routed experts share
    std::string type;       // "q4_K"
    uint64_t slice_bytes = 0;
    std::vector<uint32_t> layers;
};

struct WeightAccount {
    uint64_t total_bytes = 0;
    uint64_t routed_bytes = 0;
    uint64_t resident_bytes = 0;
    std::vector<std::pair<TensorKind, uint64_t>> resident_by_kind; // all kinds except routed_expert, including zeros

    std::vector<uint32_t> expert_layers;
    std::vector<ExpertSize> expert_sizes; // by expert_bytes
    std::vector<SliceFormat> slices;      // in the order gate, up, down, gate_up; within a projection by slice_bytes

    // The expert bytes that one token uses: in all layers, and in all layers if every layer had the largest experts. In
    // one MoE layer: the mean and the maximum over the layers with experts.
    uint64_t token_bytes = 0;
    uint64_t token_bytes_max = 0;
    uint64_t layer_bytes_mean = 0;
    uint64_t layer_bytes_max = 0;
};

WeightAccount account_of(const ModelLayout &layout);

// "0-3, 5, 8-39"; "-" for no layers.
std::string format_layers(std::span<const uint32_t> layers);

} // namespace larder

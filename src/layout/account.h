// account.h — the weight account of a model: what must stay in RAM, what can be streamed, what one token needs of it.
//
// A pure function of the layout, for people (`larder inspect`) and for whoever wants a figure by kind or by layer.
// Units: bytes. Layers are in ascending order.
#pragma once

#include "layout/layout.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace larder {

// Experts of one size: what reading one expert of these layers costs.
struct ExpertSize {
    uint64_t expert_bytes = 0; // the sum of its slices
    uint64_t n_expert = 0;     // in the whole model
    std::vector<uint32_t> layers;
};

// How one projection of the routed experts is quantised in these layers.
struct SliceFormat {
    std::string projection; // "gate"; "gate (chunk)" for experts that several of the routed ones share
    std::string type;       // "q4_K"
    uint64_t slice_bytes = 0;
    std::vector<uint32_t> layers;
};

struct WeightAccount {
    uint64_t total_bytes = 0;
    uint64_t routed_bytes = 0;
    uint64_t resident_bytes = 0;
    std::vector<std::pair<TensorKind, uint64_t>> resident_by_kind; // every kind but routed_expert, zero or not

    std::vector<uint32_t> expert_layers;
    std::vector<ExpertSize> expert_sizes; // by expert_bytes
    std::vector<SliceFormat> slices;      // gate, up, down, gate_up; of one projection by slice_bytes

    // The working set of one token: in all layers together, and what that would be with every expert of the largest
    // size. In a single layer with experts: the mean over these layers, and the largest.
    uint64_t token_bytes = 0;
    uint64_t token_bytes_max = 0;
    uint64_t layer_bytes_mean = 0;
    uint64_t layer_bytes_max = 0;
};

WeightAccount account_of(const ModelLayout &layout);

// "0-3, 5, 8-39"; "-" for none.
std::string format_layers(std::span<const uint32_t> layers);

} // namespace larder

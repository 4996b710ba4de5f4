// classify.h — the kind of a tensor, derived from its name in llama.cpp. Independent of the architecture.
#pragma once

#include "layout/layout.h"

#include <optional>
#include <string_view>

namespace larder {

// "blk.12.ffn_up_exps.weight" is layer 12, stem "ffn_up_exps", suffix "weight".
struct TensorName {
    int layer = -1;
    std::string_view stem;
    std::string_view suffix; // empty if there is none: "blk.0.ssm_a"
};
TensorName parse_tensor_name(std::string_view name);

struct ExpertName {
    Projection projection = Projection::gate;
    bool chunk = false; // "chexps": experts that several routed experts share; they form a MoE layer of their own
};
// For a stacked weight of routed experts. nullopt for every other tensor, including biases and scales of experts.
std::optional<ExpertName> parse_expert_name(std::string_view name);

// Whether the tensor belongs to one expert only, as in old files: "blk.0.ffn_gate.7.weight".
bool is_single_expert(std::string_view name);

TensorKind classify(std::string_view name);

} // namespace larder

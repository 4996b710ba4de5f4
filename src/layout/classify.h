// classify.h — what a tensor is, by llama.cpp's names. Nothing here depends on the architecture.
#pragma once

#include "layout/layout.h"

#include <optional>
#include <string_view>

namespace larder {

// "blk.12.ffn_up_exps.weight" is layer 12, stem "ffn_up_exps", suffix "weight".
struct TensorName {
    int layer = -1;
    std::string_view stem;
    std::string_view suffix; // empty where there is none: "blk.0.ssm_a"
};
TensorName parse_tensor_name(std::string_view name);

struct ExpertName {
    Projection projection = Projection::gate;
    bool chunk = false; // "chexps": experts that several of the routed ones share, a MoE layer of its own
};
// Of a stacked weight of routed experts; nullopt for everything else, their biases and scales included.
std::optional<ExpertName> parse_expert_name(std::string_view name);

// Of one expert alone, as in old files: "blk.0.ffn_gate.7.weight".
bool is_single_expert(std::string_view name);

TensorKind classify(std::string_view name);

} // namespace larder

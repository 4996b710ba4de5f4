#include "layout/classify.h"

#include <charconv>

namespace larder {

namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool is_norm(std::string_view stem) { return contains(stem, "norm") || stem.ends_with("_ln"); }

bool is_embedding(std::string_view stem) {
    return contains(stem, "token_embd") || contains(stem, "embed_tokens") || stem == "position_embd" ||
           stem == "token_types";
}

bool is_head(std::string_view stem) {
    return stem == "output" || stem.starts_with("cls") || stem.ends_with("shared_head_head");
}

bool is_router(std::string_view stem) {
    return stem.starts_with("ffn_gate_inp") || stem.starts_with("exp_probs_b") || stem == "ffn_gate_tid2eid";
}

bool is_recurrent(std::string_view stem) {
    return stem.starts_with("ssm_") || stem.starts_with("shortconv.") || stem.starts_with("time_mix_");
}

bool is_attention(std::string_view stem) {
    return stem.starts_with("attn_") || stem.starts_with("indexer") || stem.starts_with("cross_attn_");
}

} // namespace

std::string_view to_string(TensorKind kind) {
    switch (kind) {
    case TensorKind::routed_expert:
        return "routed expert";
    case TensorKind::embedding:
        return "embedding";
    case TensorKind::head:
        return "head";
    case TensorKind::attention:
        return "attention";
    case TensorKind::ssm:
        return "SSM";
    case TensorKind::shared_expert:
        return "shared expert";
    case TensorKind::router:
        return "router";
    case TensorKind::norm:
        return "norms";
    case TensorKind::other:
        break;
    }
    return "other";
}

std::string_view to_string(Projection projection) {
    switch (projection) {
    case Projection::gate:
        return "gate";
    case Projection::up:
        return "up";
    case Projection::down:
        return "down";
    case Projection::gate_up:
        break;
    }
    return "gate_up";
}

TensorName parse_tensor_name(std::string_view name) {
    constexpr std::string_view block = "blk.";
    TensorName parsed;
    std::string_view rest = name;
    if (rest.starts_with(block)) {
        const char *digits = rest.data() + block.size();
        const char *end = rest.data() + rest.size();
        uint16_t layer = 0; // llama.cpp's limit is 512
        const auto [after, code] = std::from_chars(digits, end, layer);
        if (code == std::errc() && after != end && *after == '.') {
            parsed.layer = layer;
            rest = std::string_view(after + 1, static_cast<size_t>(end - after - 1));
        }
    }
    const size_t dot = rest.rfind('.');
    const bool has_suffix = dot != std::string_view::npos;
    parsed.stem = rest.substr(0, dot);
    parsed.suffix = has_suffix ? rest.substr(dot + 1) : std::string_view();
    return parsed;
}

std::optional<ExpertName> parse_expert_name(std::string_view name) {
    const TensorName parsed = parse_tensor_name(name);
    if (parsed.layer < 0 || parsed.suffix != "weight") {
        return std::nullopt;
    }
    for (const Projection projection : {Projection::gate, Projection::up, Projection::down, Projection::gate_up}) {
        const std::string stem = "ffn_" + std::string(to_string(projection));
        if (parsed.stem == stem + "_exps" || parsed.stem == stem + "_chexps") {
            return ExpertName{projection, parsed.stem == stem + "_chexps"};
        }
    }
    return std::nullopt;
}

bool is_single_expert(std::string_view name) {
    const TensorName parsed = parse_tensor_name(name);
    const size_t dot = parsed.stem.rfind('.');
    if (parsed.layer < 0 || parsed.suffix != "weight" || dot == std::string_view::npos) {
        return false;
    }
    const std::string_view projection = parsed.stem.substr(0, dot);
    const std::string_view expert = parsed.stem.substr(dot + 1);
    return (projection == "ffn_gate" || projection == "ffn_up" || projection == "ffn_down") && !expert.empty() &&
           expert.find_first_not_of("0123456789") == std::string_view::npos;
}

TensorKind classify(std::string_view name) {
    if (parse_expert_name(name)) {
        return TensorKind::routed_expert;
    }
    const std::string_view stem = parse_tensor_name(name).stem;
    if (is_norm(stem)) {
        return TensorKind::norm;
    }
    if (is_embedding(stem)) {
        return TensorKind::embedding;
    }
    if (is_head(stem)) {
        return TensorKind::head;
    }
    if (contains(stem, "shexp")) {
        return TensorKind::shared_expert;
    }
    if (is_router(stem)) {
        return TensorKind::router;
    }
    if (is_recurrent(stem)) {
        return TensorKind::ssm;
    }
    return is_attention(stem) ? TensorKind::attention : TensorKind::other;
}

} // namespace larder

// JSON lines, with or without larder's header.
#include "lab/trace/formats.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <optional>

namespace larder {

namespace {

using nlohmann::json;

json parse_line(const Lines &lines) {
    json line = json::parse(lines.text(), nullptr, false);
    if (!line.is_object()) {
        throw lines.fault("the line is not JSON in braces, or is cut short");
    }
    return line;
}

// Returns a whole number from `low` to `high`, or throws.
uint32_t number(const Lines &lines, const json &value, std::string_view what, uint64_t low, uint64_t high) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() < low || value.get<uint64_t>() > high) {
        throw lines.fault(fmt::format("{} is {}, not a whole number from {} to {}", what,
                                      printable(value.dump(-1, ' ', false, json::error_handler_t::replace)), low,
                                      high));
    }
    return value.get<uint32_t>();
}

// The parser stores numbers below zero as signed and all others as unsigned. A comparison of json values does not
// distinguish them.
bool is_no_expert(const json &value) {
    return value.is_number_integer() && !value.is_number_unsigned() && value.get<int64_t>() == -1;
}

// null if the key is missing.
json member(const json &object, const char *key) {
    const auto found = object.find(key);
    return found == object.end() ? json() : *found;
}

class JsonTrace {
  public:
    explicit JsonTrace(Lines &lines) : lines_(lines) {}

    RoutingTrace read() {
        json line = parse_line(lines_);
        bool more = true;
        if (line.contains("larder_trace")) {
            take_header(line);
            more = lines_.next();
        } else {
            take_shape(line);
        }
        for (; more; more = lines_.next()) {
            take_token(parse_line(lines_));
        }
        if (expert_max_ >= 0 && trace_.n_expert == 0) {
            trace_.n_expert = static_cast<uint32_t>(expert_max_) + 1;
        }
        return std::move(trace_);
    }

  private:
    void take_header(const json &line) {
        const uint32_t version = number(lines_, line["larder_trace"], "the format's version", 0, 1'000'000);
        if (version != 1) {
            throw lines_.fault(fmt::format("the format's version is {}, and 1 is the only one known", version));
        }
        const json architecture = member(line, "architecture");
        if (!architecture.is_string()) {
            throw lines_.fault("the header has no text 'architecture'");
        }
        trace_.architecture = architecture.get<std::string>();
        trace_.n_expert = number(lines_, member(line, "experts"), "'experts'", 1, trace_experts_max);
        trace_.top_k = number(lines_, member(line, "top_k"), "'top_k'", 1, std::min(trace_top_k_max, trace_.n_expert));
        const json layers = member(line, "layers");
        if (!layers.is_array() || layers.empty() || layers.size() > trace_layers_max) {
            throw lines_.fault(fmt::format("'layers' is not a list of 1 to {} layers", trace_layers_max));
        }
        for (const json &layer : layers) {
            trace_.layers.push_back(number(lines_, layer, "a layer's number", 0, trace_layers_max - 1));
        }
        trace_.n_layer = static_cast<uint32_t>(layers.size());
    }

    // Without a header the first token determines the number of layers and of experts that each layer uses.
    void take_shape(const json &line) {
        const json layers = member(line, "layers");
        if (!layers.is_array() || layers.empty() || layers.size() > trace_layers_max || !layers[0].is_array() ||
            layers[0].empty() || layers[0].size() > trace_top_k_max) {
            throw lines_.fault("the line has no 'layers' with lists of experts");
        }
        trace_.n_layer = static_cast<uint32_t>(layers.size());
        trace_.top_k = static_cast<uint32_t>(layers[0].size());
        trace_.layers.resize(trace_.n_layer);
        std::iota(trace_.layers.begin(), trace_.layers.end(), 0U);
    }

    void take_token(const json &line) {
        TraceToken token{.phase = phase_of(line), .experts = {}};
        const json layers = member(line, "layers");
        if (!layers.is_array() || layers.size() != trace_.n_layer) {
            throw lines_.fault(fmt::format("the token has {} layers instead of {}", layers.size(), trace_.n_layer));
        }
        token.experts.reserve(size_t{trace_.n_layer} * trace_.top_k);
        for (size_t layer = 0; layer < layers.size(); layer++) {
            take_experts(layers[layer], layer, token.experts);
        }
        trace_.tokens.push_back(std::move(token));
    }

    [[nodiscard]] TracePhase phase_of(const json &line) const {
        const json phase = member(line, "phase");
        if (phase == "prefill") {
            return TracePhase::prefill;
        }
        if (phase.is_null() || phase == "decode") {
            return TracePhase::decode;
        }
        throw lines_.fault("'phase' is neither \"prefill\" nor \"decode\"");
    }

    void take_experts(const json &ids, size_t layer, std::vector<int32_t> &experts) {
        if (!ids.is_array() || ids.size() != trace_.top_k) {
            throw lines_.fault(fmt::format("layer {} has {} experts instead of {}", layer, ids.size(), trace_.top_k));
        }
        const auto first = static_cast<std::ptrdiff_t>(experts.size());
        const uint32_t expert_end = trace_.n_expert > 0 ? trace_.n_expert : trace_experts_max;
        for (const json &value : ids) {
            if (is_no_expert(value)) {
                experts.push_back(-1);
                continue;
            }
            const auto id = static_cast<int32_t>(
                number(lines_, value, fmt::format("an expert of layer {}", layer), 0, expert_end - 1));
            if (std::find(experts.begin() + first, experts.end(), id) != experts.end()) {
                throw lines_.fault(fmt::format("layer {} names expert {} twice", layer, id));
            }
            experts.push_back(id);
            expert_max_ = std::max(expert_max_, id);
        }
    }

    Lines &lines_;
    RoutingTrace trace_;
    int32_t expert_max_ = -1;
};

} // namespace

RoutingTrace read_json_lines(Lines &lines) { return JsonTrace(lines).read(); }

} // namespace larder

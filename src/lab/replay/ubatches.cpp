#include "lab/replay/replay.h"

#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder {
namespace {

constexpr size_t ubatch_tokens_max = 512; // llama.cpp's default

std::vector<TraceToken> tokens_of(const RoutingTrace &trace, TracePhase phase) {
    std::vector<TraceToken> tokens;
    std::ranges::copy_if(trace.tokens, std::back_inserter(tokens),
                         [&](const TraceToken &token) { return token.phase == phase; });
    return tokens;
}

void append_prefill(std::vector<Ubatch> &ubatches, const std::vector<TraceToken> &tokens) {
    for (size_t i = 0; i < tokens.size(); i += ubatch_tokens_max) {
        const size_t end = std::min(tokens.size(), i + ubatch_tokens_max);
        ubatches.push_back(
            {{tokens.begin() + static_cast<std::ptrdiff_t>(i), tokens.begin() + static_cast<std::ptrdiff_t>(end)},
             false});
    }
}

// Shifts all expert numbers by half of their count.
TraceToken renumbered(const RoutingTrace &trace, TraceToken token) {
    const auto n = static_cast<int32_t>(trace.n_expert);
    for (int32_t &expert : token.experts) {
        expert = expert < 0 ? expert : (expert + n / 2) % n;
    }
    token.phase = TracePhase::prefill;
    return token;
}

} // namespace

std::vector<Ubatch> decode_of(const RoutingTrace &trace, bool warm) {
    std::vector<Ubatch> ubatches;
    if (warm) {
        append_prefill(ubatches, tokens_of(trace, TracePhase::prefill));
    }
    const size_t before = ubatches.size();
    for (const TraceToken &token : tokens_of(trace, TracePhase::decode)) {
        ubatches.push_back({{token}, true});
    }
    if (ubatches.size() == before) {
        throw Error(ErrorKind::model, fmt::format("{} has no decoded token", trace.name),
                    "record one with larder run --trace FILE -n 100");
    }
    return ubatches;
}

std::vector<Ubatch> decode_around_prefill(const RoutingTrace &trace, uint32_t tokens) {
    std::vector<Ubatch> ubatches = decode_of(trace, false);
    const size_t half = ubatches.size() / 2;
    for (size_t i = 0; i < half; ++i) {
        ubatches[i].counted = false;
    }
    std::vector<TraceToken> text;
    for (size_t i = 0; i < tokens; ++i) {
        text.push_back(renumbered(trace, trace.tokens[i % trace.tokens.size()]));
    }
    std::vector<Ubatch> prefill;
    append_prefill(prefill, text);
    ubatches.insert(ubatches.begin() + static_cast<std::ptrdiff_t>(half), prefill.begin(), prefill.end());
    return ubatches;
}

} // namespace larder

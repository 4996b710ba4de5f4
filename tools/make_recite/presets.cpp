#include "presets.h"

#include "base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

namespace larder::make_recite {

namespace {

// layers, experts, top-k, embd, ff, heads, vocab, ctx, kv heads, head size, SSM state
constexpr std::array table = {
    Preset{"qwen3-6g",
           "qwen3moe",
           "Qwen3-30B-A3B with experts a third as wide; 6 of 128 used",
           {48, 128, 6, 2048, 256, 32, 151'936, 32'768, 4, 128, 0}},
    Preset{"35b",
           "qwen35moe",
           "Qwen3.5-35B-A3B: 10 layers of attention, 30 of gated delta net; 8 of 256 used",
           {40, 256, 8, 2048, 512, 16, 248'320, 32'768, 2, 256, 128}},
    Preset{"4b",
           "smallthinker",
           "SmallThinker-4B-A0.6B; 4 of 32 used",
           {32, 32, 4, 1536, 768, 12, 151'936, 32'768, 2, 128, 0}},
};

// Architectures whose router uses only the residual stream or its RMS norm.
constexpr std::array<std::string_view, 3> reciters = {"qwen3moe", "qwen35moe", "smallthinker"};

} // namespace

std::span<const Preset> presets() { return table; }

const Preset &find_preset(std::string_view name) {
    const auto *found = std::ranges::find(table, name, &Preset::name);
    if (found == table.end()) {
        std::vector<std::string_view> names;
        std::ranges::transform(table, std::back_inserter(names), &Preset::name);
        throw Error(ErrorKind::usage, fmt::format("--shape: unknown shape '{}'", name),
                    fmt::format("known are {}", fmt::join(names, ", ")));
    }
    return *found;
}

const make_model::Architecture &find_reciter(std::string_view name) {
    if (std::ranges::find(reciters, name) == reciters.end()) {
        throw Error(ErrorKind::usage, fmt::format("--arch: '{}' cannot recite", name),
                    fmt::format("those that can are {}", fmt::join(reciters, ", ")));
    }
    return make_model::find_architecture(name);
}

} // namespace larder::make_recite

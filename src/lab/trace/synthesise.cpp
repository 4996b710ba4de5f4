#include "lab/trace/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>

namespace larder {

namespace {

// The standard defines the output of the random engine, but not of its distributions. So the distributions are
// implemented here.
class Dice {
  public:
    explicit Dice(uint64_t seed) : engine_(seed) {}

    double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; } // [0, 1)
    size_t below(size_t end) { return static_cast<size_t>(unit() * static_cast<double>(end)); }

  private:
    std::mt19937_64 engine_;
};

// The popularity of a layer's experts, and the experts that the previous token used.
class Layer {
  public:
    Layer(const SyntheticTrace &wanted, Dice &dice) : weights_(wanted.n_expert) {
        std::vector<uint32_t> order(wanted.n_expert);
        std::iota(order.begin(), order.end(), 0U);
        for (size_t i = order.size(); i > 1; i--) {
            std::swap(order[i - 1], order[dice.below(i)]);
        }
        for (size_t rank = 0; rank < order.size(); rank++) {
            weights_[order[rank]] = std::pow(static_cast<double>(rank + 1), -wanted.skew);
        }
    }

    const std::vector<int32_t> &next(const SyntheticTrace &wanted, Dice &dice) {
        std::vector<int32_t> chosen;
        std::vector<int32_t> reusable = before_;
        while (chosen.size() < wanted.top_k) {
            const bool reuse = dice.unit() < wanted.reuse && !reusable.empty();
            const int32_t expert = reuse ? reusable[dice.below(reusable.size())] : draw(chosen, dice);
            chosen.push_back(expert);
            std::erase(reusable, expert);
        }
        before_ = std::move(chosen);
        return before_;
    }

  private:
    // Draws an expert that is not in `taken`.
    int32_t draw(std::span<const int32_t> taken, Dice &dice) const {
        const auto is_taken = [&](size_t expert) {
            return std::ranges::find(taken, static_cast<int32_t>(expert)) != taken.end();
        };
        double total = 0;
        for (size_t expert = 0; expert < weights_.size(); expert++) {
            total += is_taken(expert) ? 0 : weights_[expert];
        }
        double left = dice.unit() * total;
        size_t last = 0;
        for (size_t expert = 0; expert < weights_.size(); expert++) {
            if (is_taken(expert)) {
                continue;
            }
            last = expert;
            left -= weights_[expert];
            if (left < 0) {
                break;
            }
        }
        return static_cast<int32_t>(last);
    }

    std::vector<double> weights_;
    std::vector<int32_t> before_;
};

void check(const SyntheticTrace &wanted) {
    const bool sizes = wanted.n_layer >= 1 && wanted.n_layer <= trace_layers_max && wanted.n_expert >= 1 &&
                       wanted.n_expert <= trace_experts_max && wanted.top_k >= 1 &&
                       wanted.top_k <= std::min(wanted.n_expert, trace_top_k_max) && wanted.n_token >= 1;
    if (!sizes) {
        throw Error(ErrorKind::usage, fmt::format("no trace has {} layers, {} experts, {} of them used, and {} tokens",
                                                  wanted.n_layer, wanted.n_expert, wanted.top_k, wanted.n_token));
    }
    if (!(wanted.skew >= 0 && wanted.skew <= 10 && wanted.reuse >= 0 && wanted.reuse <= 1)) {
        throw Error(ErrorKind::usage,
                    fmt::format("a synthetic trace of skew {} and reuse {} cannot be made", wanted.skew, wanted.reuse),
                    "the skew is from 0 to 10, the reuse from 0 to 1");
    }
}

} // namespace

RoutingTrace synthesise_trace(const SyntheticTrace &wanted) {
    check(wanted);
    RoutingTrace trace{.name =
                           fmt::format("synthetic skew {} reuse {} seed {}", wanted.skew, wanted.reuse, wanted.seed),
                       .architecture = {},
                       .n_layer = wanted.n_layer,
                       .n_expert = wanted.n_expert,
                       .top_k = wanted.top_k,
                       .layers = std::vector<uint32_t>(wanted.n_layer),
                       .tokens = std::vector<TraceToken>(wanted.n_token)};
    std::iota(trace.layers.begin(), trace.layers.end(), 0U);
    Dice dice(wanted.seed);
    std::vector<Layer> layers;
    layers.reserve(wanted.n_layer);
    for (uint32_t i = 0; i < wanted.n_layer; i++) {
        layers.emplace_back(wanted, dice);
    }
    for (TraceToken &token : trace.tokens) {
        for (Layer &layer : layers) {
            const std::vector<int32_t> &experts = layer.next(wanted, dice);
            token.experts.insert(token.experts.end(), experts.begin(), experts.end());
        }
    }
    return trace;
}

} // namespace larder

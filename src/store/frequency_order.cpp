#include "store/frequency_order.h"

#include "base/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace larder {
namespace {

constexpr float half_life_steps = 16;
// When the unit of a layer has grown to unit_max (after about 800 steps), its counts are divided by it. A count that is
// then below smallest_count has not been used for about 1600 steps and becomes 0: even smaller floats would be denormal
// and slow.
constexpr float unit_max = 1e15F;
constexpr float smallest_count = 1e-30F;
// A step of more tokens is a prefill. That one of its many tokens used an expert says little about the next token.
constexpr uint32_t few_tokens_max = 8;

constexpr float infinite = std::numeric_limits<float>::infinity();

size_t total(const std::vector<uint32_t> &experts_of_moe_layer) {
    return std::accumulate(experts_of_moe_layer.begin(), experts_of_moe_layer.end(), size_t{0});
}

} // namespace

FrequencyOrder::FrequencyOrder(const EvictionShape &shape, FrequencyWeights weights)
    : weights_(weights), n_layer_(shape.experts_of_moe_layer.size()), n_expert_(total(shape.experts_of_moe_layer)),
      layers_(n_layer_), uses_(n_expert_), nearness_(n_layer_), least_(shape.size_classes * n_layer_),
      lists_(shape.slots, shape.size_classes * n_expert_), places_(shape.slots), sizes_(shape.size_classes, 0),
      kept_(shape.slots, shape.size_classes) {
    uint32_t expert = 0;
    for (size_t layer = 0; layer < n_layer_; ++layer) {
        layers_[layer].first_expert = expert;
        expert += shape.experts_of_moe_layer[layer];
        layers_[layer].end_expert = expert;
        const float round = static_cast<float>(layer) / static_cast<float>(n_layer_);
        nearness_[layer] = std::exp2(weights_.nearness * round);
    }
}

void FrequencyOrder::begin_step(uint32_t layer, uint32_t tokens) {
    LARDER_CHECK(layer < n_layer_ && tokens > 0);
    for (size_t size_class = 0; size_class < sizes_.size(); ++size_class) {
        for (SlotIndex slot = kept_.front(size_class); slot != no_slot; slot = kept_.front(size_class)) {
            kept_.remove(slot);
            set_state(slot, State::free);
        }
        least_[size_class * n_layer_ + layer].expert = unknown;
    }

    static const float growth = std::exp2(1 / half_life_steps);
    Layer &own = layers_[layer];
    own.unit *= growth;
    if (own.unit > unit_max) {
        rescale(own);
    }
    layer_ = layer;
    token_worth_ = own.unit / static_cast<float>(tokens);
    few_tokens_ = tokens <= few_tokens_max;
    own.few_steps += few_tokens_ ? 1 : 0;
}

void FrequencyOrder::rescale(Layer &layer) {
    for (uint32_t expert = layer.first_expert; expert < layer.end_expert; ++expert) {
        const float count = uses_[expert].count / layer.unit;
        uses_[expert].count = count < smallest_count ? 0 : count;
    }
    layer.unit = 1;
}

void FrequencyOrder::use(RoutedExpert expert, uint32_t rows) {
    LARDER_CHECK(expert.moe_layer == layer_ && expert.index < n_expert_);
    Use &use = uses_[expert.index];
    use.count += static_cast<float>(rows) * token_worth_;
    if (few_tokens_) {
        use.few_steps = layers_[layer_].few_steps;
    }
}

void FrequencyOrder::insert(uint32_t size_class, SlotIndex slot, RoutedExpert expert) {
    LARDER_CHECK(expert.moe_layer < n_layer_ && expert.index < n_expert_ && places_[slot].state == State::absent);
    lists_.push_back(list(size_class, expert.index), slot);
    places_[slot] = {expert, State::free};
    ++sizes_[size_class];
    Least &known = least(size_class, expert.moe_layer);
    if (known.expert == unknown) {
        return;
    }
    const float own = worth(layers_[expert.moe_layer], expert.index);
    if (own < known.worth || (own == known.worth && expert.index < known.expert)) {
        known = {own, expert.index};
    }
}

void FrequencyOrder::remove(uint32_t size_class, SlotIndex slot) {
    pin(size_class, slot);
    set_state(slot, State::absent);
    lists_.remove(slot);
    const RoutedExpert expert = places_[slot].expert;
    Least &known = least(size_class, expert.moe_layer);
    if (known.expert == expert.index && lists_.empty(list(size_class, expert.index))) {
        known.expert = unknown;
    }
}

void FrequencyOrder::pin(uint32_t size_class, SlotIndex slot) {
    LARDER_CHECK(evictable(slot));
    if (places_[slot].state == State::kept) {
        kept_.remove(slot);
    }
    set_state(slot, State::pinned);
    --sizes_[size_class];
}

void FrequencyOrder::unpin(uint32_t size_class, SlotIndex slot) {
    LARDER_CHECK(places_[slot].state == State::pinned);
    set_state(slot, State::free);
    ++sizes_[size_class];
}

void FrequencyOrder::keep(uint32_t size_class, SlotIndex slot) {
    LARDER_CHECK(evictable(slot));
    if (places_[slot].state == State::free) {
        set_state(slot, State::kept);
        kept_.push_back(size_class, slot);
    }
}

// Does not change the number of slots of any state, nor the expert of least worth.
void FrequencyOrder::move(uint32_t /*size_class*/, SlotIndex from, SlotIndex to) {
    LARDER_CHECK(evictable(from) && places_[to].state == State::absent);
    lists_.replace(from, to);
    if (places_[from].state == State::kept) {
        kept_.replace(from, to);
    }
    places_[to] = places_[from];
    places_[from].state = State::absent;
}

void FrequencyOrder::set_state(SlotIndex slot, State state) {
    const auto blocks = [](State s) { return s == State::kept || s == State::pinned ? 1U : 0U; };
    Place &place = places_[slot];
    layers_[place.expert.moe_layer].blocked += blocks(state) - blocks(place.state);
    place.state = state;
}

SlotIndex FrequencyOrder::slot_of(uint32_t size_class, uint32_t expert, State state) const {
    SlotIndex slot = lists_.front(list(size_class, expert));
    while (slot != no_slot && places_[slot].state != state) {
        slot = lists_.next(slot);
    }
    return slot;
}

// Of experts with equal worth the lowest number is chosen, so that the result does not depend on cached results.
FrequencyOrder::Least FrequencyOrder::search(uint32_t size_class, const Layer &layer, bool free_only) const {
    Least found = {infinite, nobody};
    for (uint32_t expert = layer.first_expert; expert < layer.end_expert; ++expert) {
        if (worth(layer, expert) < found.worth && (free_only ? slot_of(size_class, expert, State::free) != no_slot
                                                             : !lists_.empty(list(size_class, expert)))) {
            found = {worth(layer, expert), expert};
        }
    }
    return found;
}

FrequencyOrder::Least FrequencyOrder::least_free(uint32_t size_class, uint32_t layer) {
    Least &known = least(size_class, layer);
    if (known.expert == unknown) {
        known = search(size_class, layers_[layer], false);
    }
    if (layers_[layer].blocked == 0 || known.expert == nobody ||
        slot_of(size_class, known.expert, State::free) != no_slot) {
        return known;
    }
    return search(size_class, layers_[layer], true);
}

float FrequencyOrder::nearness(uint32_t layer) const {
    return nearness_[layer <= layer_ ? layer_ - layer : layer_ + n_layer_ - layer];
}

SlotIndex FrequencyOrder::victim(uint32_t size_class) {
    float worst = infinite;
    uint32_t expert = nobody;
    for (uint32_t layer = 0; layer < n_layer_; ++layer) {
        const Least least = least_free(size_class, layer);
        const float worth_now = least.worth / layers_[layer].unit * nearness(layer);
        if (least.expert != nobody && worth_now < worst) {
            worst = worth_now;
            expert = least.expert;
        }
    }
    return expert == nobody ? kept_.front(size_class) : slot_of(size_class, expert, State::free);
}

} // namespace larder

// frequency_order.h — evicts the slot of the expert with the least worth. Worth is the number of uses of an expert; old
// uses count less.
//
// Each expert has a count. It is halved every 16 steps of the expert's MoE layer. Each step adds the share of its
// tokens that use the expert: 1 for a use in decode, a fraction in a prefill, whose hundreds of tokens are one step. So
// experts that a prefill uses once are worth less than experts that decode uses, and are evicted first. Experts that
// are not cached keep their counts.
//
// FrequencyWeights adds two factors:
//   - last_step: the next token uses a fifth to two fifths of a layer's experts again, far more than their counts
//     predict. The worth of the experts that the layer's last step of few tokens used is multiplied by this factor.
//   - nearness: layers run in a fixed order. An expert of the layer that has just run is not used again before all
//     other layers have run; an expert of the next layer may be used immediately. Worth grows as the layer's next step
//     gets nearer.
//
// A hit is cheap: instead of halving all counts, each step increases the unit in which its layer counts. For each layer
// and size class, the expert of least worth is cached until a count or a slot of the layer changes. Only layers with
// pinned or kept slots are searched for an evictable slot.
//
// "Layer" in this file means MoE layer.
#pragma once

#include "store/eviction.h"
#include "store/slot_lists.h"

namespace larder {

struct FrequencyWeights {
    float last_step = 1; // factor
    float nearness = 0;  // log2 of the growth of worth from one step of a layer to its next
};
inline constexpr FrequencyWeights lfru_weights = {.last_step = 1024, .nearness = 0.5};

class FrequencyOrder final : public EvictionOrder {
  public:
    FrequencyOrder(const EvictionShape &shape, FrequencyWeights weights);

    void begin_step(uint32_t layer, uint32_t tokens) override;
    void use(RoutedExpert expert, uint32_t rows) override;

    void insert(uint32_t size_class, SlotIndex slot, RoutedExpert expert) override;
    void remove(uint32_t size_class, SlotIndex slot) override;
    void pin(uint32_t size_class, SlotIndex slot) override;
    void unpin(uint32_t size_class, SlotIndex slot) override;
    void keep(uint32_t size_class, SlotIndex slot) override;
    void move(uint32_t size_class, SlotIndex from, SlotIndex to) override;

    [[nodiscard]] SlotIndex victim(uint32_t size_class) override;
    [[nodiscard]] bool evictable(SlotIndex slot) const override {
        return places_[slot].state == State::free || places_[slot].state == State::kept;
    }
    [[nodiscard]] uint32_t size(uint32_t size_class) const override { return sizes_[size_class]; }

  private:
    static constexpr uint32_t unknown = UINT32_MAX;    // must be searched
    static constexpr uint32_t nobody = UINT32_MAX - 1; // there is no such expert
    struct Least {
        float worth = 0; // in units of the layer
        uint32_t expert = unknown;
    };
    enum class State : uint8_t { absent, free, kept, pinned };
    struct Place { // of one slot
        RoutedExpert expert;
        State state = State::absent;
    };
    struct Layer {
        uint32_t first_expert = 0;
        uint32_t end_expert = 0;
        float unit = 1;         // the count of one use in decode
        uint32_t few_steps = 1; // number of steps of few tokens, plus 1: an expert that none of them used has 0
        uint32_t blocked = 0;   // number of pinned or kept slots
    };
    struct Use {
        float count = 0;        // in units of its layer
        uint32_t few_steps = 0; // Layer::few_steps at its last use in such a step
    };

    [[nodiscard]] size_t list(uint32_t size_class, uint32_t expert) const { return size_class * n_expert_ + expert; }
    [[nodiscard]] Least &least(uint32_t size_class, uint32_t layer) { return least_[size_class * n_layer_ + layer]; }
    [[nodiscard]] float worth(const Layer &layer, uint32_t expert) const {
        const Use &use = uses_[expert];
        return use.few_steps == layer.few_steps ? use.count * weights_.last_step : use.count;
    }
    [[nodiscard]] float nearness(uint32_t layer) const;
    // The first slot of the expert in this state, or no_slot.
    [[nodiscard]] SlotIndex slot_of(uint32_t size_class, uint32_t expert, State state) const;
    [[nodiscard]] Least search(uint32_t size_class, const Layer &layer, bool free_only) const;
    [[nodiscard]] Least least_free(uint32_t size_class, uint32_t layer);
    void set_state(SlotIndex slot, State state);
    void rescale(Layer &layer);

    FrequencyWeights weights_;
    size_t n_layer_;
    size_t n_expert_ = 0; // of all layers
    std::vector<Layer> layers_;
    std::vector<Use> uses_;       // by expert
    std::vector<float> nearness_; // by the number of layers that have run since this one
    std::vector<Least> least_;    // by size class and layer, including pinned and kept slots
    SlotLists lists_;             // by size class and expert
    std::vector<Place> places_;   // by slot
    std::vector<uint32_t> sizes_; // by size class
    SlotLists kept_;              // by size class
    uint32_t layer_ = 0;          // of the current step
    float token_worth_ = 1;       // the count of one token of the current step
    bool few_tokens_ = true;      // of the current step
};

} // namespace larder

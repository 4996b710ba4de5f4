// textbook_lfru.h — a reference for larder's eviction policy, slow and simple: each choice looks at all slots.
//
// It computes with the same floats in the same order as FrequencyOrder, so ties have the same result.
#pragma once

#include "store/eviction.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

namespace larder::test {

class TextbookLfru {
  public:
    TextbookLfru(uint32_t layers, uint32_t experts)
        : layers_(layers), experts_(experts), unit_(layers, 1), count_(size_t{layers} * experts, 0),
          last_(size_t{layers} * experts, 0), few_steps_(layers, 1) {}

    void begin_step(uint32_t layer, uint32_t tokens) {
        for (auto &[slot, held] : held_) {
            held.kept = false;
        }
        unit_[layer] *= std::exp2(1 / 16.0F);
        layer_ = layer;
        tokens_ = tokens;
        few_steps_[layer] += tokens <= 8 ? 1 : 0;
    }
    void use(RoutedExpert expert, uint32_t rows) {
        count_[expert.index] += static_cast<float>(rows) * (unit_[layer_] / static_cast<float>(tokens_));
        if (tokens_ <= 8) {
            last_[expert.index] = few_steps_[layer_];
        }
    }
    void insert(uint32_t size_class, uint32_t slot, uint32_t expert) {
        held_[slot] = {size_class, expert, ++inserted_};
    }
    void remove(uint32_t slot) { held_.erase(slot); }
    void move(uint32_t from, uint32_t to) {
        held_[to] = held_.at(from);
        held_.erase(from);
    }
    void pin(uint32_t slot, bool pinned) { held_.at(slot).pinned = pinned; }
    [[nodiscard]] bool holds(uint32_t slot) const { return held_.contains(slot); }
    [[nodiscard]] uint64_t size(uint32_t size_class) const {
        return static_cast<uint64_t>(
            std::ranges::count_if(held_, [&](const auto &each) { return each.second.size_class == size_class; }));
    }

    // The slot to evict: among those not kept, the one of lowest value; of equals, the lowest expert; then its oldest
    // slot.
    [[nodiscard]] uint32_t victim(uint32_t size_class) const {
        uint32_t found = no_slot;
        std::tuple<bool, float, uint32_t, uint64_t> least;
        for (const auto &[slot, held] : held_) {
            if (held.size_class != size_class || held.pinned) {
                continue;
            }
            const auto rank = held.kept ? std::tuple{true, 0.0F, 0U, held.kept_at}
                                        : std::tuple{false, worth(held.expert), held.expert, held.inserted};
            if (found == no_slot || rank < least) {
                found = slot;
                least = rank;
            }
        }
        return found;
    }

    // Changes both policies in one of the ways that the slot's state allows.
    void change(EvictionOrder &order, uint32_t size_class, uint32_t slot, uint32_t expert, uint64_t choice) {
        const auto found = held_.find(slot);
        if (found == held_.end()) {
            order.insert(size_class, slot, {expert / experts_, expert});
            insert(size_class, slot, expert);
            return;
        }
        Held &held = found->second;
        if (held.pinned) {
            order.unpin(size_class, slot);
            held.pinned = false;
        } else if (choice == 0) {
            order.remove(size_class, slot);
            held_.erase(found);
        } else if (choice == 1 && !held.kept) {
            order.keep(size_class, slot);
            held.kept = true;
            held.kept_at = ++inserted_;
        } else {
            order.pin(size_class, slot);
            held.pinned = true;
            held.kept = false;
        }
    }

  private:
    struct Held {
        uint32_t size_class = 0;
        uint32_t expert = 0;
        uint64_t inserted = 0;
        uint64_t kept_at = 0;
        bool pinned = false;
        bool kept = false;
    };

    [[nodiscard]] float worth(uint32_t expert) const {
        const uint32_t layer = expert / experts_;
        const float count = last_[expert] == few_steps_[layer] ? count_[expert] * 1024 : count_[expert];
        const uint32_t layers_ago = (layer_ + layers_ - layer) % layers_;
        const float nearness = std::exp2(0.5F * (static_cast<float>(layers_ago) / static_cast<float>(layers_)));
        return count / unit_[layer] * nearness;
    }

    uint32_t layers_;
    uint32_t experts_;
    std::vector<float> unit_;         // by layer
    std::vector<float> count_;        // by expert
    std::vector<uint32_t> last_;      // by expert
    std::vector<uint32_t> few_steps_; // by layer
    std::map<uint32_t, Held> held_;   // by slot
    uint64_t inserted_ = 0;
    uint32_t layer_ = 0;
    uint32_t tokens_ = 1;
};

} // namespace larder::test

// The eviction orders alone: which slot is evicted first.
#include "store/eviction.h"

#include "base/error.h"
#include "store/frequency_order.h"
#include "store/lru_order.h"
#include "textbook_lfru.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace larder::test {
namespace {

constexpr uint32_t layers = 4;
constexpr uint32_t experts = 8; // per layer
constexpr uint32_t all_experts = layers * experts;

RoutedExpert expert_of(uint32_t layer, uint32_t expert) { return {layer, layer * experts + expert}; }

// An order with one size class, and a slot with the same number for each expert.
class OneSlotEach {
  public:
    explicit OneSlotEach(std::string_view policy)
        : order(make_eviction_order(policy, {all_experts, 1, std::vector<uint32_t>(layers, experts)})) {}

    void step(uint32_t layer, const std::vector<uint32_t> &used, uint32_t tokens = 1, uint32_t rows = 1) {
        order->begin_step(layer, tokens);
        for (const uint32_t expert : used) {
            order->use(expert_of(layer, expert), rows);
        }
    }
    void insert(uint32_t layer, const std::vector<uint32_t> &all) {
        for (const uint32_t expert : all) {
            order->insert(0, slot(layer, expert), expert_of(layer, expert));
        }
    }
    static SlotIndex slot(uint32_t layer, uint32_t expert) { return expert_of(layer, expert).index; }
    // Evicts all slots that can be evicted, and returns them in that order.
    std::vector<SlotIndex> drain() {
        std::vector<SlotIndex> gone;
        for (SlotIndex victim = order->victim(0); victim != no_slot; victim = order->victim(0)) {
            order->remove(0, victim);
            gone.push_back(victim);
        }
        return gone;
    }

    std::unique_ptr<EvictionOrder> order;
};

TEST(Eviction, PoliciesAreMadeByName) {
    EXPECT_THAT(eviction_policies(), testing::Contains(product_policy));
    for (const std::string_view policy : eviction_policies()) {
        EXPECT_NE(make_eviction_order(policy, {1, 1, {1}}), nullptr);
    }
    try {
        make_eviction_order("best", {1, 1, {1}});
        FAIL() << "made";
    } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::usage);
        EXPECT_THAT(error.what(), testing::HasSubstr("lru, decayed, lfru"));
    }
}

TEST(Eviction, EveryPolicyKeepsClassesApartAndNeverGivesWhatIsPinned) {
    for (const std::string_view policy : eviction_policies()) {
        SCOPED_TRACE(policy);
        const auto order = make_eviction_order(policy, {6, 2, {3, 3}});
        EXPECT_EQ(order->victim(0), no_slot);
        order->insert(0, 2, {0, 1});
        order->insert(1, 5, {0, 1});
        order->insert(0, 3, {1, 4});
        EXPECT_EQ(order->size(0), 2U);
        EXPECT_EQ(order->size(1), 1U);
        EXPECT_EQ(order->victim(1), 5U);
        order->pin(0, 2);
        EXPECT_FALSE(order->evictable(2));
        EXPECT_EQ(order->victim(0), 3U);
        order->pin(0, 3);
        EXPECT_EQ(order->victim(0), no_slot);
        EXPECT_EQ(order->size(0), 0U);
        order->unpin(0, 2);
        EXPECT_EQ(order->victim(0), 2U);
        order->remove(0, 2);
        EXPECT_FALSE(order->evictable(2));
        EXPECT_EQ(order->victim(0), no_slot);
        EXPECT_EQ(order->victim(1), 5U);
    }
}

TEST(Eviction, EveryPolicyGivesWhatIsKeptLast) {
    for (const std::string_view policy : eviction_policies()) {
        SCOPED_TRACE(policy);
        OneSlotEach model(policy);
        model.step(0, {0, 1, 2, 3});
        model.insert(0, {0, 1, 2, 3});
        model.order->keep(0, model.slot(0, 0));
        EXPECT_EQ(model.order->size(0), 4U);
        EXPECT_EQ(model.drain(), (std::vector<SlotIndex>{1, 2, 3, 0}));
    }
}

TEST(Eviction, EveryPolicyLeavesTheTurnOfWhatMovesAsItIs) {
    for (const std::string_view policy : eviction_policies()) {
        SCOPED_TRACE(policy);
        OneSlotEach model(policy);
        model.step(0, {0, 1, 2, 3});
        model.insert(0, {0, 1, 2, 3});
        model.order->keep(0, model.slot(0, 0));
        model.order->move(0, model.slot(0, 0), model.slot(1, 0));
        model.order->move(0, model.slot(0, 2), model.slot(1, 2));
        EXPECT_FALSE(model.order->evictable(model.slot(0, 2)));
        EXPECT_EQ(model.order->size(0), 4U);
        EXPECT_EQ(model.drain(), (std::vector<SlotIndex>{1, model.slot(1, 2), 3, model.slot(1, 0)}));
    }
}

TEST(EvictionDeathTest, ASlotIsInAnOrderOnce) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (const std::string_view policy : eviction_policies()) {
        const auto order = make_eviction_order(policy, {2, 1, {2}});
        order->insert(0, 1, {0, 1});
        EXPECT_DEATH(order->insert(0, 1, {0, 1}), "internal error");
        EXPECT_DEATH(order->remove(0, 0), "internal error");
        EXPECT_DEATH(order->keep(0, 0), "internal error");
        EXPECT_DEATH(order->move(0, 0, 1), "internal error");
    }
}

TEST(LruOrder, GivesWhatWasUnpinnedLongestAgo) {
    OneSlotEach model("lru");
    model.insert(0, {2, 0, 1});
    model.order->pin(0, 2);
    model.order->unpin(0, 2);
    EXPECT_EQ(model.drain(), (std::vector<SlotIndex>{0, 1, 2}));
}

TEST(FrequencyOrder, WhatWasUsedMoreOftenGoesLater) {
    for (const std::string_view policy : {"decayed", "lfru"}) {
        OneSlotEach model(policy);
        model.insert(0, {0, 1, 2, 3});
        model.step(0, {1, 2});
        model.step(0, {1, 2});
        model.step(0, {1, 3});
        model.step(0, {});
        EXPECT_EQ(model.drain(), (std::vector<SlotIndex>{0, 3, 2, 1})) << policy;
    }
}

TEST(FrequencyOrder, AUseCountsHalfAfter16Steps) {
    for (const uint32_t steps : {15U, 17U}) {
        OneSlotEach model("decayed");
        model.insert(0, {0, 1});
        model.step(0, {1});
        model.step(0, {1}); // together slightly less than two uses
        for (uint32_t i = 2; i < steps; ++i) {
            model.step(0, {});
        }
        model.step(0, {0});
        EXPECT_EQ(model.order->victim(0), steps < 16 ? 0U : 1U) << steps;
    }
}

TEST(FrequencyOrder, WhatALayersLastStepUsedOutlivesAllOthers) {
    OneSlotEach model("lfru");
    model.insert(0, {0, 1, 2});
    for (int i = 0; i < 40; ++i) {
        model.step(0, {1, 2});
    }
    model.step(0, {0, 2});
    EXPECT_EQ(model.drain(), (std::vector<SlotIndex>{1, 0, 2}));
}

TEST(FrequencyOrder, OfEqualsTheLayerWhoseTurnIsFartherGoesFirst) {
    OneSlotEach model("lfru");
    for (uint32_t layer = 0; layer < layers; ++layer) {
        model.insert(layer, {5});
        model.step(layer, {5});
    }
    model.step(0, {});
    model.step(1, {});
    model.step(2, {});
    model.step(3, {});
    model.step(0, {});
    model.step(1, {}); // the next layers are 2, 3, 0 and 1
    model.step(2, {5});
    model.step(3, {5});
    model.step(0, {5});
    model.step(1, {5});
    EXPECT_EQ(model.drain(),
              (std::vector<SlotIndex>{model.slot(1, 5), model.slot(0, 5), model.slot(3, 5), model.slot(2, 5)}));
}

TEST(FrequencyOrder, APrefillIsOneStepWithSharesOfItsTokens) {
    OneSlotEach model("lfru");
    model.insert(0, {0, 1, 2, 3});
    model.step(0, {3});
    for (int i = 0; i < 20; ++i) {
        model.step(0, {});
    }
    model.step(0, {0}, 512, 30); // more uses than expert 3 ever had, but few of this step's
    model.step(0, {2}, 512, 400);
    EXPECT_EQ(model.drain(), (std::vector<SlotIndex>{1, 0, 3, 2}));
}

TEST(FrequencyOrder, APrefillTakesNoProtectionFromTheLastDecodeStep) {
    OneSlotEach model("lfru");
    model.insert(0, {0, 1, 2});
    model.step(0, {0});
    for (int i = 0; i < 8; ++i) {
        model.step(0, {1}, 512, 512);
    }
    EXPECT_EQ(model.drain(), (std::vector<SlotIndex>{2, 1, 0}));
}

TEST(FrequencyOrder, RemembersTheCountsOfWhatIsNotResident) {
    OneSlotEach model("lfru");
    for (int i = 0; i < 5; ++i) {
        model.step(0, {1});
    }
    model.step(0, {0});
    model.step(0, {});
    model.insert(0, {0, 1});
    EXPECT_EQ(model.order->victim(0), 0U);
}

TEST(FrequencyOrder, CountsStayRightOverManyThousandSteps) {
    OneSlotEach model("decayed");
    model.insert(0, {0, 1, 2, 3});
    model.step(0, {3});
    for (int i = 0; i < 20'000; ++i) {
        model.step(0, i % 2 == 0 ? std::vector<uint32_t>{1, 2} : std::vector<uint32_t>{1});
    }
    EXPECT_EQ(model.drain(), (std::vector<SlotIndex>{0, 3, 2, 1}));
}

// Compares with a reference: slots of two classes are pinned, released, kept, filled and emptied at random.
TEST(FrequencyOrder, DoesWhatTheTextbookDoes) {
    constexpr uint32_t slots = 40;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937_64 random(seed);
        FrequencyOrder order({slots, 2, std::vector<uint32_t>(layers, experts)}, lfru_weights);
        TextbookLfru textbook(layers, experts);
        for (int step = 0; step < 3000; ++step) {
            if (random() % 4 == 0) {
                const auto layer = static_cast<uint32_t>(random() % layers);
                const auto tokens = static_cast<uint32_t>(1 + random() % (random() % 2 == 0 ? 1 : 100));
                order.begin_step(layer, tokens);
                textbook.begin_step(layer, tokens);
                for (auto expert = static_cast<uint32_t>(random() % 3); expert < experts; expert += 2) {
                    const auto rows = static_cast<uint32_t>(1 + random() % tokens);
                    order.use(expert_of(layer, expert), rows);
                    textbook.use(expert_of(layer, expert), rows);
                }
            }
            const auto slot = static_cast<SlotIndex>(random() % slots);
            textbook.change(order, slot % 2, slot, static_cast<uint32_t>(random() % all_experts), random() % 4);
            const auto other = static_cast<SlotIndex>(random() % slots / 2 * 2 + slot % 2); // of the same class
            if (random() % 8 == 0 && order.evictable(slot) && !textbook.holds(other)) {
                order.move(slot % 2, slot, other);
                textbook.move(slot, other);
            }
            for (const uint32_t size_class : {0U, 1U}) {
                ASSERT_EQ(order.victim(size_class), textbook.victim(size_class)) << "step " << step;
            }
        }
    }
}

} // namespace
} // namespace larder::test

// The arenas of two models, one of which may not be loaded.
#include "pressure/arenas.h"

#include "store/store_fixture.h"

#include <gmock/gmock.h>

namespace larder::test {
namespace {

using testing::ElementsAre;

// Two size classes each: slots of 12288 and 16384 bytes, as in make_layout().
std::vector<SlotRange> classes_of_two_models() {
    return {{12288, 20, 80}, {16384, 4, 16}, {12288, 10, 40}, {16384, 2, 8}};
}

TEST(Arenas, CountAModelThatIsNotLoadedAsEmptySlots) {
    const Arenas arenas(classes_of_two_models());
    const ArenaUse use = arenas.arena_use();
    EXPECT_THAT(use.slots, ElementsAre(80, 16, 40, 8));
    EXPECT_EQ(use.bytes, 120 * 12288U + 24 * 16384U);
    EXPECT_EQ(use.empty_bytes, use.bytes);
    EXPECT_FALSE(use.pending);
}

TEST(Arenas, ResizeTheStoresOfAllModelsByTheirOwnClasses) {
    Arenas arenas(classes_of_two_models());
    StoreOnSim first(make_layout(4, 8, 2), {80, 16});
    StoreOnSim second(make_layout(4, 8, 2), {40, 8});
    arenas.add(*first.operator->(), 0);
    arenas.add(*second.operator->(), 2);
    arenas.resize(std::vector<uint64_t>{50, 10, 20, 4});
    EXPECT_THAT(first->arena_use().slots, ElementsAre(50, 10));
    EXPECT_THAT(second->arena_use().slots, ElementsAre(20, 4));
    EXPECT_THAT(arenas.arena_use().slots, ElementsAre(50, 10, 20, 4));
    arenas.remove(*first.operator->());
    arenas.remove(*second.operator->());
}

TEST(Arenas, CountWhatTheStoresHold) {
    Arenas arenas(classes_of_two_models());
    StoreOnSim first(make_layout(4, 8, 2), {80, 16});
    arenas.add(*first.operator->(), 0);
    const uint64_t empty = arenas.arena_use().empty_bytes;
    EXPECT_EQ(first.run(first.slices(0, Projection::up, {1, 2})).size(), 2U);
    const ArenaUse use = arenas.arena_use();
    EXPECT_LT(use.empty_bytes, empty);
    EXPECT_EQ(use.bytes - use.empty_bytes, first->arena_use().bytes - first->arena_use().empty_bytes);
    arenas.remove(*first.operator->());
    EXPECT_EQ(arenas.arena_use().empty_bytes, empty);
}

TEST(Arenas, AreNotSettledWithoutAStoreAndWhileItsMemoryIsFreed) {
    Arenas arenas(classes_of_two_models());
    EXPECT_FALSE(arenas.settled());
    StoreOnSim first(make_layout(4, 8, 2), {80, 16});
    StoreOnSim second(make_layout(4, 8, 2), {40, 8});
    arenas.add(*first.operator->(), 0);
    arenas.add(*second.operator->(), 2);
    EXPECT_TRUE(arenas.settled());
    arenas.remove(*second.operator->());
    EXPECT_FALSE(arenas.settled());
    arenas.remove(*first.operator->());
}

TEST(Arenas, GiveAModelThatIsLoadedLaterWhatIsLeftToIt) {
    Arenas arenas(classes_of_two_models());
    arenas.resize(std::vector<uint64_t>{20, 4, 10, 2});
    StoreOnSim second(make_layout(4, 8, 2), {40, 8});
    arenas.add(*second.operator->(), 2);
    EXPECT_THAT(second->arena_use().slots, ElementsAre(10, 2));
    arenas.remove(*second.operator->());
}

} // namespace
} // namespace larder::test

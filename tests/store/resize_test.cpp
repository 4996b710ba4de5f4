// Changes of the number of slots while the store works.
#include "store_fixture.h"

#include "base/bytes.h"

#include <gmock/gmock.h>

#include <unistd.h>

#include <fstream>
#include <thread>

namespace larder::test {
namespace {

using testing::ElementsAre;
using enum Projection;

StoreOnSim make_store(uint64_t small_slots, uint64_t large_slots, SimOptions options = {}) {
    return {make_layout(4, 8, 2), {small_slots, large_slots}, options};
}

using Slots = std::vector<uint64_t>;

TEST(Resize, WhatIsWorthLeastGoesAndTheRestIsStillThere) {
    StoreOnSim store = make_store(6, 4);
    const auto used_again = store.slices(0, up, {0, 1, 2});
    store.run(store.slices(1, up, {3, 4, 5}), {}, true);
    store.run(used_again, {}, true);
    store.run(used_again, {}, true);
    store.run(store.slices(1, up, {7}), {}, true); // takes the slot of the first slice of low value
    store->resize(Slots{3, 4});
    EXPECT_TRUE(store.cached(used_again));
    store.disk.forget_requests();
    store.run(used_again); // also checks their bytes
    EXPECT_EQ(store.disk.request_count(), 0U);
    EXPECT_EQ(store->stats().shrinks, 1U);
    EXPECT_EQ(store->stats().regrows, 0U);
    EXPECT_THAT(store->arena_use().slots, ElementsAre(3, 4));
}

TEST(Resize, AShrunkStoreStreamsAWholeLayerThroughOneSlot) {
    StoreOnSim store = make_store(8, 4);
    store->resize(Slots{1, 1});
    const auto demanded = store.slices(0, up, {0, 1, 2, 3, 4, 5, 6, 7});
    EXPECT_EQ(store.run(demanded, store.slices(0, gate, {0, 1, 2, 3, 4, 5, 6, 7}), true).size(), 8U);
    EXPECT_EQ(store->stats().slice_reads, 8U) << "what follows has no room";
    store->resize(Slots{8, 4});
    EXPECT_EQ(store.run(demanded).size(), 8U);
    EXPECT_TRUE(store.cached(demanded));
    EXPECT_EQ(store->stats().regrows, 1U);
}

TEST(Resize, DuringABatchWaitsForItsEnd) {
    StoreOnSim store = make_store(4, 4);
    const auto demanded = store.slices(0, up, {0, 1, 2, 3});
    store->begin(demanded, {}, true);
    store->start_reads();
    std::vector<Pin> pins;
    for (uint32_t position = 0; position < 4; ++position) {
        pins.push_back(store->wait(position));
        ASSERT_TRUE(pins.back());
    }
    std::thread([&] { store->resize(Slots{2, 4}); }).join();
    EXPECT_TRUE(store->arena_use().pending);
    EXPECT_THAT(store->arena_use().slots, ElementsAre(4, 4));
    for (const Pin &pin : pins) {
        EXPECT_TRUE(store.holds_its_bytes(*pin)) << "pinned slices stay where they are";
    }
    pins.clear();
    store->end();
    EXPECT_FALSE(store->arena_use().pending);
    EXPECT_THAT(store->arena_use().slots, ElementsAre(2, 4));
}

TEST(Resize, WaitsForReadsInFlightAndABatchWaitsForIt) {
    StoreOnSim store = make_store(8, 4);
    const auto following = store.slices(0, gate, {0, 1});
    store.disk.hold();
    store->begin({}, {}, false);
    store->end();
    store->begin(store.slices(0, up, {0, 1}), following, true);
    store->end(); // its reads are in flight
    EXPECT_EQ(store.disk.in_flight(), 4U);
    std::thread other([&] { store->resize(Slots{2, 4}); });
    while (!store->arena_use().pending) {
        std::this_thread::yield();
    }
    std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        store.disk.resume();
    });
    EXPECT_EQ(store.run(store.slices(1, up, {3, 4, 5})).size(), 3U);
    other.join();
    later.join();
    EXPECT_THAT(store->arena_use().slots, ElementsAre(2, 4));
    EXPECT_EQ(store->stats().slice_reads, 7U) << "none was read twice or left out";
}

TEST(Resize, FirstUsesStayFirstUsesWhereSlicesMove) {
    StoreOnSim store = make_store(6, 4);
    const auto used = store.slices(0, up, {0, 1});
    const auto unused = store.slices(0, gate, {0, 1});
    store.run(store.slices(1, up, {0, 1}), {}, true); // in the first two slots, with the lowest value
    store.run(used, unused, true);
    store.run(used, {}, true);
    store->resize(Slots{4, 4});
    ASSERT_TRUE(store.cached(used) && store.cached(unused));
    for (const bool first : {false, true}) {
        store->begin(first ? unused : used, {}, false);
        EXPECT_EQ(store->wait(0)->first_use, first) << "what was used before may have been changed";
        EXPECT_EQ(store->wait(1)->first_use, first);
        store->end();
    }
}

TEST(Resize, TheLastOfSeveralCallsCounts) {
    StoreOnSim store = make_store(8, 4);
    store->begin({}, {}, false);
    store->resize(Slots{2, 1});
    store->resize(Slots{5, 3});
    store->end();
    EXPECT_THAT(store->arena_use().slots, ElementsAre(5, 3));
    EXPECT_EQ(store->stats().shrinks, 1U);
}

TEST(Resize, ThreadsThatAskWhileBatchesRunDoNoHarm) {
    StoreOnSim store = make_store(24, 12);
    std::atomic<bool> done{false};
    const auto ask = [&](uint64_t seed) {
        for (uint64_t i = seed; !done; i = i * 7 + 3) {
            store->resize(Slots{1 + i % 24, 1 + i % 12});
            EXPECT_EQ(store->arena_use().slots.size(), 2U);
            std::this_thread::yield();
        }
    };
    std::thread first(ask, 1);
    std::thread second(ask, 5);
    for (uint32_t i = 0; i < 300; ++i) {
        const uint32_t layer = i % 4;
        const std::vector<uint32_t> experts = {i % 3, 3 + i % 5};
        auto following = store.slices(layer, gate, experts);
        const auto down_slices = store.slices(layer, down, experts);
        following.insert(following.end(), down_slices.begin(), down_slices.end());
        EXPECT_EQ(store.run(store.slices(layer, up, experts), following, true).size(), 2U);
        EXPECT_EQ(store.run(store.slices(layer, gate, experts)).size(), 2U);
        EXPECT_EQ(store.run(down_slices).size(), 2U);
    }
    done = true;
    first.join();
    second.join();
    EXPECT_GT(store->stats().shrinks, 0U);
}

// --- memory: slots of half a MiB, so that it is returned in huge pages ---

ModelLayout with_large_slots() {
    ModelLayout layout = make_layout(4, 8, 2);
    for (SizeClass &size_class : layout.size_classes) {
        size_class.slot_bytes = 512 * KiB;
    }
    return layout;
}

uint64_t rss_bytes() {
    std::ifstream file("/proc/self/statm");
    uint64_t all = 0;
    uint64_t resident = 0;
    file >> all >> resident;
    return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

constexpr uint64_t noise = 8 * MiB; // changes of other memory of the process

TEST(Resize, GivesMemoryBackToTheKernel) {
    const uint64_t before = rss_bytes();
    StoreOnSim store(with_large_slots(), {128, 64}); // 64 MiB and 32 MiB, touched in advance
    for (int tries = 0; tries < 6000 && rss_bytes() < before + 90 * MiB; ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (rss_bytes() < before + 90 * MiB) {
        GTEST_SKIP() << "this kernel touches nothing ahead";
    }
    store->resize(Slots{8, 8}); // 4 MiB each
    EXPECT_LE(rss_bytes(), before + 8 * MiB + noise);
    EXPECT_EQ(store->stats().bytes_given_back, 88 * MiB);
    EXPECT_EQ(store->arena_use().bytes, 8 * MiB);
    store->resize(Slots{32, 8});
    EXPECT_EQ(store->arena_use().bytes, 20 * MiB);
    EXPECT_EQ(store->arena_use().empty_bytes, 20 * MiB);
    store->resize(Slots{8, 8});
    EXPECT_EQ(store->stats().bytes_given_back, 100 * MiB);
}

TEST(Resize, NothingIsTouchedAheadOfWhatIsNotInUse) {
    const uint64_t before = rss_bytes();
    StoreOnSim store(with_large_slots(), {1024, 64});
    store->resize(Slots{8, 8}); // long before half a GiB is touched
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_LE(rss_bytes(), before + 8 * MiB + noise);
}

TEST(ResizeDeathTest, MoreSlotsThanThereAreIsABug) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    StoreOnSim store = make_store(4, 4);
    EXPECT_DEATH(store->resize(Slots{5, 4}), "internal error");
    EXPECT_DEATH(store->resize(Slots{4, 0}), "internal error");
    EXPECT_DEATH(store->resize(Slots{4}), "internal error");
}

} // namespace
} // namespace larder::test

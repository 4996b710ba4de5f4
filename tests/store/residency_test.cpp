// What stays cached, what is evicted, and what is read.
#include "store_fixture.h"

#include <gmock/gmock.h>

#include <numeric>
#include <thread>

namespace larder::test {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::UnorderedElementsAreArray;

using enum Projection;

StoreOnSim make_store(uint64_t small_slots, uint64_t large_slots, SimOptions options = {}) {
    return {make_layout(4, 8, 2), {small_slots, large_slots}, options};
}

TEST(Residency, EachAbsentSliceIsReadOnce) {
    StoreOnSim store = make_store(8, 4);
    const auto demanded = store.slices(0, up, {5, 1, 6});
    EXPECT_THAT(store.run(demanded), UnorderedElementsAreArray(demanded));
    for (const SliceIndex slice : demanded) {
        EXPECT_EQ(store.reads_of(slice), 1U);
    }
    EXPECT_EQ(store->stats().slice_reads, 3U);
    EXPECT_TRUE(store.cached(demanded));
}

TEST(Residency, HitsNeedNoRead) {
    StoreOnSim store = make_store(8, 4);
    const auto demanded = store.slices(1, gate, {7, 0, 3});
    store.run(demanded);
    store.disk.forget_requests();
    EXPECT_THAT(store.run(demanded), ElementsAreArray(demanded)) << "ready ones come in the order demanded";
    EXPECT_EQ(store.disk.request_count(), 0U);
}

TEST(Residency, MissingSlicesAreAskedForInOneCallAndInFileOrder) {
    StoreOnSim store = make_store(8, 4);
    store.run(store.slices(0, up, {4}));
    store.disk.forget_requests();
    store.run(store.slices(0, up, {7, 4, 0, 2}));
    EXPECT_EQ(store.disk.submit_calls(), 1U);
    std::vector<uint64_t> offsets;
    for (const ReadRequest &request : store.disk.requests()) {
        offsets.push_back(request.offset);
    }
    EXPECT_EQ(offsets.size(), 3U);
    EXPECT_TRUE(std::ranges::is_sorted(offsets));
}

TEST(Residency, TheFirstUseLastsUntilABatchHasUsedTheSlice) {
    StoreOnSim store = make_store(8, 4);
    const auto first_uses = [&store](const std::vector<SliceIndex> &demanded) {
        store->begin(demanded, {}, true);
        store->start_reads();
        std::vector<bool> first(demanded.size());
        for (uint32_t position = 0; position < demanded.size(); ++position) {
            const Pin slice = store->wait(position);
            first.at(slice->demanded_position) = slice->first_use;
        }
        store->end();
        return first;
    };
    EXPECT_THAT(first_uses(store.slices(0, up, {2, 5})), ElementsAre(true, true));
    EXPECT_THAT(first_uses(store.slices(0, up, {2, 5, 6})), ElementsAre(false, false, true));
    first_uses(store.slices(2, up, {0, 1, 2, 3, 4, 5, 6, 7})); // occupies all slots
    EXPECT_THAT(first_uses(store.slices(0, up, {2, 6})), ElementsAre(true, true)) << "read again";
}

TEST(Residency, ReadySlicesComeBeforeThoseStillRead) {
    StoreOnSim store = make_store(8, 4);
    store.run(store.slices(0, up, {2, 5}));
    const auto order = store.run(store.slices(0, up, {0, 5, 1, 2}));
    ASSERT_EQ(order.size(), 4U);
    EXPECT_EQ(order[0], store.slice(0, up, 5));
    EXPECT_EQ(order[1], store.slice(0, up, 2));
}

TEST(Residency, ASliceIsPublishedOnlyAfterItsReadCompleted) {
    StoreOnSim store = make_store(8, 4, {.in_order = true});
    const auto demanded = store.slices(0, up, {1, 2});
    store.disk.hold();
    store->begin(demanded, {}, true);
    store->start_reads();
    EXPECT_FALSE(store->cached(demanded[0]));

    std::atomic<uint32_t> seen{0};
    std::thread user([&] {
        while (const Pin ready = store->wait(seen)) {
            EXPECT_TRUE(store.holds_its_bytes(*ready));
            ++seen;
        }
    });
    while (store.disk.waiting() == 0) {
        std::this_thread::yield();
    }
    store.disk.pass(std::chrono::milliseconds(20));
    EXPECT_EQ(seen, 0U);
    store.disk.let(1);
    while (seen < 1) {
        std::this_thread::yield();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(seen, 1U);
    EXPECT_TRUE(store->cached(demanded[0]));
    EXPECT_FALSE(store->cached(demanded[1]));
    store.disk.resume();
    user.join();
    store->end();
    EXPECT_EQ(seen, 2U);
    EXPECT_EQ(store->stats().stall_us, 20'000U);
}

TEST(Residency, WhatWasUsedLeastOftenGoesAcrossLayers) {
    StoreOnSim store = make_store(4, 4);
    const auto layer0 = store.slices(0, up, {0, 1});
    const auto layer1 = store.slices(1, up, {0, 1});
    store.run(layer0, {}, true);
    store.run(layer1, {}, true);
    store.run({layer0[0]}, {}, true);
    // layer0[1] and layer1[0] are not the most recent of their layers, and layer 1 has just been used.
    store.run({layer1[1]}, {}, true);
    store.run(store.slices(2, up, {3}), {}, true);
    EXPECT_FALSE(store->cached(layer1[0]));
    EXPECT_TRUE(store.cached({layer0[0], layer0[1], layer1[1]}));
    store.run(store.slices(3, up, {3}), {}, true);
    EXPECT_FALSE(store->cached(layer0[1]));
    EXPECT_TRUE(store.cached({layer0[0], layer1[1]}));
    EXPECT_EQ(store->stats().evictions, 2U);
}

TEST(Residency, APrefillThatStreamsPastLeavesWhatDecodingUses) {
    // Decode uses four of the experts repeatedly. A prefill of 64 tokens needs all experts once.
    StoreOnSim store = make_store(16, 8); // up and gate of the four, and of the prefill's eight experts one at a time
    const std::vector<uint32_t> used = {1, 3, 4, 7};
    const auto decoding = store.slices(1, up, used);
    for (int token = 0; token < 3; ++token) {
        store.run(decoding, {}, true);
    }
    std::vector<uint32_t> all(8);
    std::iota(all.begin(), all.end(), 0U);
    const std::vector<uint32_t> rows(8, 16);
    for (uint32_t layer = 0; layer < 4; ++layer) {
        store.run(store.slices(layer, up, all), {}, true, {rows, 64});
        store.run(store.slices(layer, gate, all));
    }
    EXPECT_TRUE(store.cached(decoding));
    store.disk.forget_requests();
    store.run(decoding, {}, true);
    EXPECT_EQ(store.disk.request_count(), 0U);
}

TEST(Residency, WhatTheBatchStillNeedsIsNeverEvicted) {
    StoreOnSim store = make_store(4, 4);
    store.run(store.slices(0, up, {0, 1, 2, 3}));
    // The oldest slices are demanded again, last, together with two that need slots.
    const auto demanded = store.slices(0, up, {6, 7, 1, 0});
    store.disk.forget_requests();
    EXPECT_EQ(store.run(demanded).size(), 4U);
    EXPECT_EQ(store.disk.request_count(), 2U);
    EXPECT_TRUE(store.cached(demanded));
}

TEST(Residency, APinnedSliceKeepsItsBytesWhileOthersStreamPast) {
    StoreOnSim store = make_store(3, 4);
    const auto demanded = store.slices(0, up, {0, 1, 2, 3, 4, 5, 6, 7});
    store->begin(demanded, {}, true);
    store->start_reads();
    {
        const Pin pinned = store->wait(0);
        for (uint32_t position = 1; position < demanded.size(); ++position) {
            ASSERT_TRUE(store->wait(position));
            ASSERT_TRUE(store.holds_its_bytes(*pinned));
        }
    }
    store->end();
    EXPECT_EQ(store->stats().slice_reads, 8U);
}

TEST(Residency, SizeClassesDoNotDisturbEachOther) {
    StoreOnSim store = make_store(4, 2);
    const auto large = store.slices(0, down, {2, 3});
    store.run(large);
    for (uint32_t layer = 0; layer < 4; ++layer) {
        store.run(store.slices(layer, gate, {0, 1, 2, 3, 4, 5, 6, 7}));
    }
    EXPECT_TRUE(store.cached(large));
    const auto small = store.slices(3, gate, {6, 7});
    store.run(small);
    store.run(store.slices(2, down, {0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_TRUE(store.cached(small));
    EXPECT_FALSE(store.cached(large));
}

TEST(Residency, AnArenaOfExactlyOneTokensSlicesHoldsThem) {
    const ModelLayout layout = make_layout(4, 8, 2);
    StoreOnSim store(layout, {layout.size_classes[0].n_slices_per_token, layout.size_classes[1].n_slices_per_token});
    const auto token = [&] {
        for (uint32_t layer = 0; layer < 4; ++layer) {
            for (const Projection projection : {up, gate, down}) {
                EXPECT_EQ(store.run(store.slices(layer, projection, {layer, layer + 3})).size(), 2U);
            }
        }
    };
    token();
    const uint64_t reads = store.disk.request_count();
    EXPECT_EQ(reads, 4U * 3U * 2U);
    token();
    EXPECT_EQ(store.disk.request_count(), reads) << "the same token again needs no read";
    EXPECT_EQ(store->stats().evictions, 0U);
}

TEST(Residency, AWindowThatReachesPastTheEndOfTheFileIsNoError) {
    ModelLayout layout = make_layout(1, 8, 2);
    const SimOptions options{.file_bytes = layout.file_bytes[0]};
    StoreOnSim store(std::move(layout), {4, 4}, options);
    const SliceIndex last = store.slice(0, down, 7);
    EXPECT_THAT(store.run({last}), ElementsAre(last));
    EXPECT_FALSE(store->failed());
}

TEST(Residency, BytesReadAreWholeWindows) {
    StoreOnSim store = make_store(8, 4);
    const auto demanded = store.slices(1, up, {3, 4});
    store.run(demanded);
    uint64_t windows = 0;
    for (const SliceIndex slice : demanded) {
        windows += window_of(store.extent(slice)).bytes;
    }
    EXPECT_EQ(store->stats().bytes_read, windows);
}

TEST(Residency, AnEmptyBatchIsNoTrouble) {
    StoreOnSim store = make_store(2, 2);
    EXPECT_TRUE(store.run({}, {}, true).empty());
    EXPECT_EQ(store.disk.request_count(), 0U);
}

TEST(Residency, TheDestructorWaitsForReadsInFlight) {
    SimReader disk;
    disk.hold();
    std::thread later;
    {
        const ModelLayout layout = make_layout(2, 8, 2);
        ExpertStore store(layout, std::vector<uint64_t>{8, 8}, disk);
        store.begin(std::vector<SliceIndex>{0, 1, 2}, {}, true);
        store.start_reads();
        store.end();
        later = std::thread([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            disk.resume();
        });
    }
    EXPECT_EQ(disk.in_flight(), 0U);
    later.join();
}

TEST(ResidencyDeathTest, MisuseStopsTheProcess) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    StoreOnSim store = make_store(4, 4);
    EXPECT_DEATH(store.run(store.slices(0, up, {1, 1})), "internal error");
    EXPECT_DEATH(store->end(), "batch_open_");
    const auto nested = [&] {
        store->begin({}, {}, false);
        store->start_reads();
        store->begin({}, {}, false);
    };
    EXPECT_DEATH(nested(), "batch_open_");
}

} // namespace
} // namespace larder::test

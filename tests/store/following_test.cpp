// Slices of a layer's later operations, read together with those of its first one.
#include "store_fixture.h"

#include <gmock/gmock.h>

#include <cerrno>

namespace larder::test {
namespace {

using enum Projection;

// Layer 0: up and gate are small, down is large.
std::vector<SliceIndex> following_of(const StoreOnSim &store, uint32_t layer, const std::vector<uint32_t> &experts) {
    auto result = store.slices(layer, gate, experts);
    const auto downs = store.slices(layer, down, experts);
    result.insert(result.end(), downs.begin(), downs.end());
    return result;
}

TEST(Following, IsReadWithTheFirstOpAndNeverAgain) {
    StoreOnSim store(make_layout(2, 8, 2), {8, 4});
    const std::vector<uint32_t> experts = {6, 1};
    store.run(store.slices(0, up, experts), following_of(store, 0, experts), true);
    EXPECT_EQ(store.disk.request_count(), 6U);
    EXPECT_EQ(store.disk.submit_calls(), 1U);
    store.run(store.slices(0, gate, experts));
    store.run(store.slices(0, down, experts));
    EXPECT_EQ(store.disk.request_count(), 6U);
}

TEST(Following, ComesAfterAllThatIsDemanded) {
    StoreOnSim store(make_layout(2, 8, 2), {8, 4});
    const std::vector<uint32_t> experts = {6, 1, 3};
    const auto demanded = store.slices(0, gate, experts); // after up in the file
    auto following = store.slices(0, up, experts);
    store.run(demanded, following, true);
    const auto requests = store.disk.requests();
    ASSERT_EQ(requests.size(), 6U);
    const uint64_t gate_begins = store.extent(store.slice(0, gate, 0)).offset;
    for (size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(requests[i].offset + requests[i].bytes_needed > gate_begins + small_slice_bytes, i < 3) << i;
    }
}

TEST(Following, InFlightWhenDemandedIsNotReadAgain) {
    StoreOnSim store(make_layout(2, 8, 2), {8, 4}, {.in_order = true});
    const std::vector<uint32_t> experts = {2, 5};
    store.disk.hold();
    store.disk.let(2);
    store.run(store.slices(0, up, experts), following_of(store, 0, experts), true);
    EXPECT_FALSE(store->cached(store.slice(0, gate, 2)));
    store.run(store.slices(0, up, experts), following_of(store, 0, experts), true);
    EXPECT_EQ(store->stats().expert_hits, 0U) << "what is still being read is no hit";
    store.disk.resume();
    EXPECT_EQ(store.run(store.slices(0, gate, experts)).size(), 2U);
    EXPECT_EQ(store.run(store.slices(0, down, experts)).size(), 2U);
    EXPECT_EQ(store.disk.request_count(), 6U);
}

TEST(Following, IsLeftOutWhereTheClassCannotHoldTheWholeLayer) {
    // Layer 0 with three experts needs 6 small slots and 3 large ones.
    StoreOnSim store(make_layout(2, 8, 2), {5, 3});
    const std::vector<uint32_t> experts = {0, 1, 2};
    store.run(store.slices(0, up, experts), following_of(store, 0, experts), true);
    EXPECT_EQ(store.disk.request_count(), 6U);
    for (const uint32_t expert : experts) {
        EXPECT_EQ(store.reads_of(store.slice(0, down, expert)), 1U);
    }
}

TEST(Following, NeverEvictsASliceOfItsOwnLayer) {
    // In odd layers all three slices are of the small class: 6 of 6 slots. The gates are already cached, and the
    // oldest.
    StoreOnSim store(make_layout(2, 8, 2), {6, 2});
    const std::vector<uint32_t> experts = {3, 4};
    store.run(store.slices(1, gate, experts));
    store.run(store.slices(0, up, {0, 1, 2, 7}));
    store.disk.forget_requests();
    store.run(store.slices(1, up, experts), following_of(store, 1, experts), true);
    store.run(store.slices(1, gate, experts));
    store.run(store.slices(1, down, experts));
    EXPECT_EQ(store.disk.request_count(), 4U);
}

TEST(Following, WaitsForNoSlotAndTakesNoneFromItsLayerWhileOthersAreStillBeingRead) {
    // Of the 6 small slots, two hold this layer's gates, and two have reads in flight for a batch that was abandoned.
    StoreOnSim store(make_layout(2, 8, 2), {6, 2});
    const std::vector<uint32_t> experts = {3, 4};
    const auto gates = store.slices(1, gate, experts);
    store.run(gates);
    store.disk.hold();
    store->begin(store.slices(0, up, {0, 1}), {}, true);
    store->start_reads();
    store->end();
    store.disk.forget_requests();
    store->begin(store.slices(1, up, experts), following_of(store, 1, experts), true);
    store->start_reads();
    EXPECT_EQ(store.disk.request_count(), 2U) << "those demanded, and no down in the place of a gate";
    EXPECT_TRUE(store.cached(gates));
    store.disk.resume();
    EXPECT_TRUE(store->wait(1));
    store->end();
}

TEST(Following, AFailedReadOfItIsForgottenAndReadAgainOnDemand) {
    StoreOnSim store(make_layout(2, 8, 2), {8, 4}, {.in_order = true});
    const std::vector<uint32_t> experts = {2, 5};
    const SliceIndex broken = store.slice(0, down, 5);
    store.fail_slice(broken, EIO);
    store.run(store.slices(0, up, experts), following_of(store, 0, experts), true);
    store.disk.heal();
    store.run(store.slices(0, gate, experts));
    EXPECT_FALSE(store->failed());
    EXPECT_EQ(store->stats().read_errors, 1U);
    EXPECT_FALSE(store->cached(broken));
    EXPECT_EQ(store.run(store.slices(0, down, experts)).size(), 2U);
    EXPECT_EQ(store.reads_of(broken), 2U);
}

TEST(Following, AnAccessIsAHitOnlyIfAllItsSlicesAreReady) {
    StoreOnSim store(make_layout(2, 8, 2), {12, 4});
    const std::vector<uint32_t> experts = {2, 5};
    const auto layer = [&](bool first_of_layer) {
        store.run(store.slices(0, up, experts), following_of(store, 0, experts), first_of_layer);
        store.run(store.slices(0, gate, experts));
        store.run(store.slices(0, down, experts));
    };
    layer(true);
    EXPECT_EQ(store->stats().expert_misses, 2U);
    layer(true);
    EXPECT_EQ(store->stats().expert_hits, 2U);
    layer(false);
    EXPECT_EQ(store->stats().expert_hits, 2U) << "counted on a layer's first op only";

    store.run(store.slices(0, down, {0, 1, 3})); // evicts down of expert 2, which was used before down of expert 5
    layer(true);
    EXPECT_EQ(store->stats().expert_hits, 3U);
    EXPECT_EQ(store->stats().expert_misses, 3U);
}

TEST(Following, AreReadEvenIfNobodyStartedTheReads) {
    StoreOnSim store{make_layout(4, 8, 2), {12, 6}};
    store.run(store.slices(0, up, {1}));
    store.disk.forget_requests();
    store->begin(store.slices(0, up, {1}), store.slices(0, gate, {1}), true);
    EXPECT_EQ(store.disk.request_count(), 0U) << "begin() only prepares";
    ASSERT_TRUE(store->wait(0));
    store->end();
    EXPECT_EQ(store.disk.request_count(), 1U);
    EXPECT_THAT(store.run(store.slices(0, gate, {1})), testing::ElementsAre(store.slice(0, gate, 1)));
    EXPECT_EQ(store.reads_of(store.slice(0, gate, 1)), 1U);
}

} // namespace
} // namespace larder::test

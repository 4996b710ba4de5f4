// A disk that does not complete its reads. The clock is the simulated disk's.
#include "store_fixture.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

namespace larder::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using enum Projection;

void wait_for_a_poll(const SimReader &disk) {
    while (disk.waiting() == 0) {
        std::this_thread::yield();
    }
}

TEST(Timeout, FailsTheSlicesThatAreMissing) {
    StoreOnSim store(make_layout(2, 8, 2), {4, 4});
    const auto demanded = store.slices(0, up, {0, 3, 6});
    store.disk.hold();
    store.disk.let(1);
    store->begin(demanded, {}, true);
    store->start_reads();
    Pin first = store->wait(0);
    ASSERT_TRUE(first);
    EXPECT_TRUE(store.holds_its_bytes(*first));
    store.disk.stall();
    for (const uint32_t position : {1U, 2U}) {
        const Pin ready = store->wait(position);
        ASSERT_TRUE(ready);
        EXPECT_EQ(ready->data, nullptr);
        EXPECT_EQ(ready->slice, demanded.at(ready->demanded_position));
        EXPECT_NE(ready->slice, first->slice);
    }
    EXPECT_EQ(store.disk.now(), 60s) << "waited once, not once for each";
    first = {};
    store->end();
    EXPECT_EQ(store->stats().read_errors, 2U);

    const auto error = store->take_error();
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->kind(), ErrorKind::io);
    EXPECT_EQ(error->message(), "no read of model-00001-of-00002.gguf finished within 60 s");
    EXPECT_FALSE(error->remedy().empty());
}

TEST(Timeout, LeavesReadsInFlightToTheNextBatch) {
    StoreOnSim store(make_layout(2, 8, 2), {4, 4});
    const auto demanded = store.slices(0, up, {0, 3, 6});
    store.disk.stall();
    EXPECT_TRUE(store.run(demanded).empty());
    EXPECT_EQ(store.disk.in_flight(), 3U);
    EXPECT_FALSE(store->cached(demanded[0]));

    const auto others = store.slices(1, up, {0}); // one more slot is free
    EXPECT_TRUE(store.run(others).empty());
    store.disk.resume();
    EXPECT_EQ(store.run(demanded).size(), 3U) << "checks the bytes";
    EXPECT_EQ(store.run(others).size(), 1U);
    EXPECT_EQ(store.disk.request_count(), 4U) << "none was read twice";
    EXPECT_TRUE(store.cached(demanded));
}

TEST(Timeout, OfALateReadDoesNotCountAsAUse) {
    StoreOnSim store(make_layout(2, 8, 2), {4, 4});
    const auto demanded = store.slices(0, up, {0, 3});
    store.disk.stall();
    store->begin(demanded, {}, true);
    store->start_reads();
    {
        const Pin failed = store->wait(1);
        ASSERT_EQ(failed->data, nullptr);
        store.disk.resume();
    } // all slices are "ready": takes no lock, reaps nothing
    store->end();
    store->begin(demanded, {}, false);
    for (const uint32_t position : {0U, 1U}) {
        const Pin ready = store->wait(position);
        ASSERT_TRUE(ready);
        EXPECT_TRUE(ready->first_use);
        EXPECT_TRUE(store.holds_its_bytes(*ready));
    }
    store->end();
}

TEST(Timeout, FailsSlicesThatHaveNoSlotYetToo) {
    for (const uint64_t slots : {1, 3}) {
        StoreOnSim store(make_layout(2, 8, 2), {slots, slots});
        const auto demanded = store.slices(0, up, {0, 1, 2, 3, 4, 5, 6, 7});
        store.disk.stall();
        EXPECT_TRUE(store.run(demanded, store.slices(0, gate, {0, 1, 2, 3, 4, 5, 6, 7}), true).empty());
        EXPECT_EQ(store.disk.request_count(), slots);
        EXPECT_TRUE(store.run(demanded).empty()) << "all slots are being read into";
        EXPECT_EQ(store.disk.now(), 120s);
        store.disk.resume();
        EXPECT_EQ(store.run(demanded).size(), 8U);
        EXPECT_EQ(store.disk.request_count(), 8U);
    }
}

TEST(Timeout, BeginsAnewWithEveryReadThatFinishes) {
    StoreOnSim store(make_layout(2, 8, 2), {4, 4}, {.in_order = true});
    const auto demanded = store.slices(0, up, {0, 3, 6});
    store.disk.hold();
    store->begin(demanded, {}, true);
    store->start_reads();
    std::atomic<uint32_t> read{0};
    std::thread user([&] {
        for (uint32_t position = 0; position < 3; ++position) {
            const Pin ready = store->wait(position);
            ASSERT_TRUE(ready);
            EXPECT_NE(ready->data, nullptr);
            ++read;
        }
    });
    for (uint32_t position = 0; position < 3; ++position) {
        wait_for_a_poll(store.disk);
        store.disk.pass(59s);
        store.disk.let(1);
        while (read == position) {
            std::this_thread::yield();
        }
    }
    user.join();
    store->end();
    EXPECT_FALSE(store->failed());
    EXPECT_EQ(store.disk.now(), 177s);
}

TEST(Timeout, OfZeroIsNone) {
    StoreOnSim store(make_layout(2, 8, 2), {4, 4}, {}, {.read_timeout = 0ms});
    store.disk.hold();
    store->begin(store.slices(0, up, {0}), {}, true);
    store->start_reads();
    std::thread user([&] { EXPECT_NE(store->wait(0)->data, nullptr); });
    wait_for_a_poll(store.disk);
    store.disk.pass(std::chrono::hours(24 * 365));
    store.disk.resume();
    user.join();
    store->end();
    EXPECT_FALSE(store->failed());
}

TEST(Timeout, IsNamedAsItWasSet) {
    StoreOnSim store(make_layout(2, 8, 2), {4, 4}, {}, {.read_timeout = 1500ms});
    store.disk.stall();
    EXPECT_TRUE(store.run(store.slices(1, up, {0})).empty());
    EXPECT_EQ(store.disk.now(), 1500ms);
    EXPECT_THAT(store->take_error()->message(), HasSubstr("model-00002-of-00002.gguf finished within 1.5 s"));
}

TEST(Timeout, AStopEndsTheWaitingBeforeIt) {
    StoreOnSim store(make_layout(2, 8, 2), {4, 4});
    store.disk.hold();
    store->begin(store.slices(0, up, {0}), {}, true);
    store->start_reads();
    std::thread user([&] { EXPECT_FALSE(store->wait(0)); });
    wait_for_a_poll(store.disk);
    store.disk.pass(30s);
    store->request_stop();
    user.join();
    store->end();
    EXPECT_FALSE(store->failed());
    store.disk.resume();
}

// A slice needs a slot that another thread still uses. It must get the slot even if a read of an earlier batch never
// completes.
TEST(Timeout, AReadThatHangsDoesNotHoldUpABatchThatHasOtherSlots) {
    StoreOnSim store(make_layout(2, 8, 2), {3, 3});
    const SliceIndex hung = store.slice(0, up, 7);
    const Extent extent = store.extent(hung);
    store.disk.delay_range(extent.file, align_up(extent.offset, direct_io_alignment), 1);
    store.disk.stall();
    EXPECT_TRUE(store.run({hung}).empty());
    store.disk.resume();
    store.disk.hold();
    store.disk.let(2);
    store->begin(store.slices(1, up, {0, 1, 2}), {}, true);
    store->start_reads();
    Pin first = store->wait(0);
    Pin second = store->wait(1);
    ASSERT_TRUE(first && second);
    std::thread other([&] {
        const Pin ready = store->wait(2);
        ASSERT_TRUE(ready);
        EXPECT_TRUE(store.holds_its_bytes(*ready));
    });
    std::this_thread::sleep_for(20ms); // gives an incorrect implementation time to fail
    EXPECT_EQ(store.disk.waiting(), 0U);
    EXPECT_EQ(store.disk.request_count(), 3U);
    first = {};
    EXPECT_EQ(store.disk.request_count(), 4U);
    store.disk.let(1);
    other.join();
    second = {};
    store->end();
    EXPECT_EQ(store.disk.in_flight(), 1U);
    store.disk.resume();
}

TEST(Timeout, AResizeWaitsAMomentAndIsDoneWhenTheReadsHaveFinished) {
    StoreOnSim store(make_layout(2, 8, 2), {4, 4});
    const auto demanded = store.slices(0, up, {0, 3, 6});
    store.disk.stall();
    EXPECT_TRUE(store.run(demanded).empty());
    store->resize(std::vector<uint64_t>{2, 4});
    EXPECT_LT(store.disk.now(), 61s);
    EXPECT_TRUE(store->arena_use().pending);
    EXPECT_THAT(store->arena_use().slots, testing::ElementsAre(4, 4));
    EXPECT_TRUE(store.run({}).empty());
    EXPECT_TRUE(store->arena_use().pending) << "still in flight";

    store.disk.resume();
    EXPECT_EQ(store.run(demanded).size(), 3U);
    EXPECT_FALSE(store->arena_use().pending);
    EXPECT_THAT(store->arena_use().slots, testing::ElementsAre(2, 4));
    EXPECT_EQ(store.run(demanded).size(), 3U);
}

TEST(Timeout, TheDestructorLeavesTheArenaMappedForAReadThatMayStillCome) {
    SimReader disk;
    {
        const ModelLayout layout = make_layout(2, 8, 2);
        const StoreOptions options{.now = [&] { return std::chrono::steady_clock::time_point(disk.now()); }};
        ExpertStore store(layout, std::vector<uint64_t>{8, 8}, disk, options);
        store.begin(std::vector<SliceIndex>{0, 1, 2}, {}, true);
        store.start_reads();
        store.end();
        disk.stall();
    }
    EXPECT_EQ(disk.now(), 60s);
    EXPECT_EQ(disk.in_flight(), 3U);
    disk.resume();
    std::vector<ReadResult> results(3);
    size_t finished = 0;
    while (finished < 3) {
        finished += disk.poll(results, 1s); // the late read writes into the arena
    }
}

} // namespace
} // namespace larder::test

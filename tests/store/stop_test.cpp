// A stop ends the waits for the disk on all threads.
#include "store_fixture.h"

#include <gmock/gmock.h>

#include <numeric>
#include <thread>

namespace larder::test {
namespace {

using enum Projection;

StoreOnSim make_store(uint64_t small_slots, uint64_t large_slots, SimOptions options = {}) {
    return {make_layout(2, 8, 2), {small_slots, large_slots}, options};
}

void wait_for_a_poll(const SimReader &disk) {
    while (disk.waiting() == 0) {
        std::this_thread::yield();
    }
}

TEST(Stop, ReachesEveryThreadThatWaitsForTheDisk) {
    StoreOnSim store = make_store(4, 4);
    const auto demanded = store.slices(0, up, {0, 3, 6});
    store.disk.hold();
    store->begin(demanded, {}, true);
    store->start_reads();
    std::vector<std::thread> waiters;
    for (uint32_t i = 0; i < 4; ++i) {
        waiters.emplace_back([&, i] { EXPECT_FALSE(store->wait(i % 3)); });
    }
    wait_for_a_poll(store.disk);
    EXPECT_FALSE(store->stop_requested());
    store->request_stop();
    EXPECT_TRUE(store->stop_requested());
    for (std::thread &waiter : waiters) {
        waiter.join();
    }
    EXPECT_FALSE(store->wait(0));
    store->end();
    EXPECT_EQ(store.disk.in_flight(), 3U) << "end() waits for none of them";
    EXPECT_FALSE(store->failed()) << "a stop is no error";

    store->clear_stop();
    EXPECT_FALSE(store->stop_requested());
    store.disk.resume();
    EXPECT_EQ(store.run(demanded).size(), 3U);
    EXPECT_EQ(store.disk.request_count(), 3U) << "the reads in flight are used";
}

TEST(Stop, LeavesReadySlicesToTheirUsersAndTheOthersOut) {
    StoreOnSim store = make_store(4, 4, {.in_order = true}); // a poll returns everything that has arrived
    const auto demanded = store.slices(0, up, {0, 3, 6});
    store.run({demanded[1]});
    store.disk.hold();
    store->begin(demanded, {}, true);
    store->start_reads();
    store->request_stop();
    {
        const Pin ready = store->wait(0);
        ASSERT_TRUE(ready);
        EXPECT_EQ(ready->slice, demanded[1]);
        EXPECT_TRUE(store.holds_its_bytes(*ready));
        store.disk.resume();
    } // the end of the pin reaps what has arrived
    EXPECT_EQ(store.disk.in_flight(), 0U);
    EXPECT_FALSE(store->wait(1)) << "a thread may have left the batch at this position";
    store->clear_stop();
    EXPECT_FALSE(store->wait(1)) << "the batch stays stopped";
    store->end();
    EXPECT_TRUE(store.cached(demanded));
    store->begin(demanded, {}, false);
    for (uint32_t position = 0; position < 3; ++position) {
        const Pin ready = store->wait(position);
        ASSERT_TRUE(ready);
        EXPECT_EQ(ready->first_use, ready->slice != demanded[1]);
    }
    store->end();
}

TEST(Stop, LetsNoReadBegin) {
    StoreOnSim store = make_store(4, 4);
    const auto demanded = store.slices(0, up, {0, 3, 6});
    const auto following = store.slices(0, gate, {0, 3, 6});
    for (const bool before_begin : {false, true}) {
        if (before_begin) {
            store->request_stop();
        }
        store->begin(demanded, following, true);
        store->request_stop();
        store->start_reads();
        EXPECT_FALSE(store->wait(0));
        store->end();
        EXPECT_EQ(store.disk.request_count(), 0U);
        store->clear_stop();
    }
    const auto four = store.slices(0, up, {0, 3, 6, 7}); // no slot was lost
    EXPECT_EQ(store.run(four, store.slices(0, gate, {0, 3, 6, 7}), true).size(), 4U);
    EXPECT_TRUE(store.cached(four));
}

TEST(Stop, OfABatchThatStreamsLosesNoSlot) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        StoreOnSim store(make_layout(2, 128, 2), {40, 40}, {.seed = seed});
        std::vector<uint32_t> experts(128);
        std::iota(experts.begin(), experts.end(), 0U);
        const auto demanded = store.slices(0, up, experts);
        for (int round = 0; round < 5; ++round) {
            store->begin(demanded, {}, true);
            store->start_reads();
            for (uint32_t position = 0; position < seed * 3; ++position) {
                ASSERT_TRUE(store->wait(position));
            }
            store->request_stop();
            store->end();
            store->clear_stop();
        }
        EXPECT_EQ(store.run(demanded, {}, true).size(), 128U) << "seed " << seed;
    }
}

TEST(Stop, AReadThatFailsAfterwardsIsNoError) {
    StoreOnSim store = make_store(4, 4);
    const auto demanded = store.slices(0, up, {0, 3, 6});
    store.run({demanded[2]});
    store.fail_slice(demanded[0], EIO);
    store.fail_slice(demanded[1], EIO);
    store.disk.hold();
    store->begin(demanded, {}, true);
    store->start_reads();
    {
        const Pin cached = store->wait(0);
        ASSERT_TRUE(cached);
        store->request_stop();
        store.disk.resume();
    } // the end of the pin reaps what has arrived
    store->end();
    store->clear_stop();
    store.disk.heal();
    EXPECT_EQ(store.run(demanded).size(), 3U);
    EXPECT_FALSE(store->failed());
}

TEST(Stop, ABatchOfCachedSlicesRunsWhileReadsOfAStoppedOneAreInFlight) {
    StoreOnSim store = make_store(6, 4);
    const auto known = store.slices(1, up, {1, 2});
    store.run(known);
    store.disk.hold();
    store->begin(store.slices(0, up, {0, 3, 6}), {}, true);
    store->start_reads();
    store->request_stop();
    store->end();
    store->clear_stop();
    EXPECT_EQ(store.run(known).size(), 2U);
    EXPECT_EQ(store.disk.in_flight(), 3U);
    store.disk.resume();
}

TEST(Stop, RequestedAndClearedByOtherThreadsDoesNoHarm) {
    StoreOnSim store = make_store(3, 2);
    std::atomic<bool> done{false};
    std::thread other([&] {
        while (!done) {
            store->request_stop();
            std::this_thread::yield();
            store->clear_stop();
            std::this_thread::yield();
        }
    });
    for (uint32_t i = 0; i < 500; ++i) {
        const auto demanded = store.slices(i % 2, up, {i % 3, 3, 4 + i % 4});
        store->begin(demanded, {}, true);
        store->start_reads();
        const auto work = [&](uint32_t first) {
            for (uint32_t position = first; position < demanded.size(); position += 2) {
                const Pin ready = store->wait(position);
                if (!ready) {
                    return;
                }
                EXPECT_TRUE(store.holds_its_bytes(*ready));
            }
        };
        std::thread second(work, 1U);
        work(0);
        second.join();
        store->end();
    }
    done = true;
    other.join();
    store->clear_stop();
    EXPECT_EQ(store.run(store.slices(0, up, {0, 1, 2, 3, 4, 5, 6, 7})).size(), 8U);
}

} // namespace
} // namespace larder::test

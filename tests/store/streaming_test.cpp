// More distinct slices than slots, on several threads.
#include "store_fixture.h"

#include <gmock/gmock.h>

#include <numeric>
#include <thread>

namespace larder::test {
namespace {

using testing::UnorderedElementsAreArray;
using enum Projection;

std::vector<uint32_t> all_experts(uint32_t count) {
    std::vector<uint32_t> experts(count);
    std::iota(experts.begin(), experts.end(), 0U);
    return experts;
}

TEST(Streaming, EachSliceIsReadExactlyOnceHoweverFewSlots) {
    for (const uint64_t slots : {1, 2, 3, 7, 31}) {
        StoreOnSim store(make_layout(2, 32, 2), {slots, slots});
        for (const Projection projection : {up, gate, down}) {
            const auto demanded = store.slices(0, projection, all_experts(32));
            store.disk.forget_requests();
            EXPECT_THAT(store.run(demanded), UnorderedElementsAreArray(demanded));
            EXPECT_EQ(store.disk.request_count(), 32U) << slots << " slots";
            EXPECT_LE(store.disk.max_in_flight(), slots);
        }
    }
}

TEST(Streaming, UsesWhatIsThereBeforeItMayBeEvicted) {
    StoreOnSim store(make_layout(2, 32, 2), {8, 8});
    const auto known = store.slices(0, up, {30, 31, 29, 28, 3, 4, 5, 6});
    store.run(known);
    store.disk.forget_requests();
    const auto order = store.run(store.slices(0, up, all_experts(32)));
    EXPECT_EQ(order.size(), 32U);
    EXPECT_EQ(store.disk.request_count(), 24U);
    EXPECT_THAT(std::vector(order.begin(), order.begin() + 8), UnorderedElementsAreArray(known));
}

TEST(Streaming, TheEndOfThePinsWakesWaitersWhenNothingIsInFlight) {
    StoreOnSim store(make_layout(2, 8, 2), {2, 2});
    const auto demanded = store.slices(0, up, {0, 1, 2});
    store->begin(demanded, {}, true, {}, 3);
    store->start_reads();
    std::vector<Pin> pins; // three of each of the first two
    for (int i = 0; i < 3; ++i) {
        pins.push_back(store->wait(0));
        pins.push_back(store->wait(1));
    }
    ASSERT_EQ(store.disk.in_flight(), 0U);
    std::vector<std::thread> waiters;
    for (int i = 0; i < 3; ++i) {
        waiters.emplace_back([&] {
            const Pin ready = store->wait(2);
            ASSERT_TRUE(ready);
            EXPECT_TRUE(store.holds_its_bytes(*ready));
        });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pins.clear();
    for (std::thread &waiter : waiters) {
        waiter.join();
    }
    store->end();
}

TEST(Streaming, AThreadBlockedOnTheDiskHoldsNobodyUp) {
    StoreOnSim store(make_layout(2, 8, 2), {2, 2}, {.in_order = true});
    const auto demanded = store.slices(0, up, {0, 1, 2, 3});
    store.disk.hold();
    store.disk.let(1);
    store->begin(demanded, {}, true);
    store->start_reads();
    Pin first = store->wait(0);
    ASSERT_TRUE(first);
    std::thread blocked([&] {
        for (uint32_t position = 1; position < 4; ++position) {
            EXPECT_TRUE(store->wait(position));
        }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    first = {}; // returns although the other thread waits for the disk
    store.disk.resume();
    blocked.join();
    store->end();
    EXPECT_EQ(store.disk.request_count(), 4U);
}

TEST(Streaming, WhoeverHasNothingToDoPolls) {
    // Three threads wait for three different positions. After each completion one of them must reap the next.
    StoreOnSim store(make_layout(2, 8, 2), {8, 8}, {.in_order = true});
    const auto demanded = store.slices(0, up, {0, 1, 2});
    store.disk.hold();
    store->begin(demanded, {}, true);
    store->start_reads();
    std::atomic<uint32_t> served{0};
    std::vector<std::thread> threads;
    for (uint32_t position = 0; position < 3; ++position) {
        threads.emplace_back([&, position] {
            EXPECT_TRUE(store->wait(position));
            ++served;
        });
    }
    for (uint32_t i = 1; i <= 3; ++i) {
        store.disk.let(1);
        while (served < i) {
            std::this_thread::yield();
        }
        EXPECT_EQ(served, i);
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    store->end();
}

TEST(Streaming, TheEndOfAPinReapsWhatHasArrived) {
    StoreOnSim store(make_layout(2, 8, 2), {8, 8}, {.in_order = true});
    store.run(store.slices(0, up, {0}));
    const uint64_t stalled_before = store->stats().stall_us;
    store.disk.hold();
    store->begin(store.slices(0, up, {0, 1, 2}), {}, true);
    store->start_reads();
    {
        const Pin cached = store->wait(0);
        ASSERT_TRUE(cached);
        store.disk.resume();
    }
    EXPECT_EQ(store.disk.in_flight(), 0U);
    EXPECT_TRUE(store->wait(1));
    EXPECT_EQ(store->stats().stall_us, stalled_before);
    store->end();
}

TEST(Streaming, APrefillTakesAWindowOfSlotsNotAllThereAre) {
    StoreOnSim store{make_layout(3, 64, 2), {100, 64}};
    const auto experts = [](uint32_t first, uint32_t count) {
        std::vector<uint32_t> numbers(count);
        std::iota(numbers.begin(), numbers.end(), first);
        return numbers;
    };
    // Decode uses 40 experts repeatedly. The other 60 slots hold slices that were used once.
    for (uint32_t first = 0; first < 3 * 40; first += 8) {
        store.run(store.slices(1, up, experts(first % 40, 8)), {}, true);
    }
    store.run(store.slices(2, up, experts(0, 60)), {}, true, {std::vector<uint32_t>(60, 1), 60});
    const auto decoding = store.slices(1, up, experts(0, 40));
    ASSERT_TRUE(store.cached(decoding));

    // Up and gate of 64 experts need more than 100 slots.
    const auto all = store.slices(0, up, experts(0, 64));
    store.disk.forget_requests();
    store.disk.hold();
    store->begin(all, store.slices(0, gate, experts(0, 64)), true, {std::vector<uint32_t>(64, 1), 64});
    store->start_reads();
    EXPECT_EQ(store.disk.request_count(), 32U);
    store.disk.let(1000);
    for (uint32_t position = 0; position < 64; ++position) {
        ASSERT_TRUE(store->wait(position));
    }
    store->end();
    EXPECT_EQ(store.run(store.slices(0, gate, experts(0, 64))).size(), 64U);
    EXPECT_EQ(store.disk.request_count(), 128U);
    EXPECT_TRUE(store.cached(decoding));
}

} // namespace
} // namespace larder::test

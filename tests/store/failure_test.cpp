// Failed reads: their effect on the batch, the next batch and the user.
#include "store_fixture.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <numeric>
#include <thread>

namespace larder::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;
using enum Projection;

TEST(Failure, SpoilsItsOwnSliceOnly) {
    for (const uint64_t seed : {1, 2, 3, 4}) {
        StoreOnSim store(make_layout(2, 8, 2), {4, 4}, {.seed = seed});
        const auto demanded = store.slices(0, up, {0, 3, 6});
        store.fail_slice(demanded[1], EIO);
        EXPECT_THAT(store.run(demanded), UnorderedElementsAre(demanded[0], demanded[2]));
        EXPECT_TRUE(store->failed());
        EXPECT_FALSE(store->cached(demanded[1]));
        EXPECT_TRUE(store.cached({demanded[0], demanded[2]}));
        EXPECT_EQ(store->stats().read_errors, 1U);
        EXPECT_EQ(store->stats().slice_reads, 2U);

        store.disk.heal();
        EXPECT_EQ(store.run(demanded).size(), 3U) << "even before the error is taken";
        EXPECT_EQ(store.reads_of(demanded[1]), 2U);
        EXPECT_EQ(store.disk.request_count(), 4U);
        EXPECT_TRUE(store->failed());
        EXPECT_TRUE(store->take_error().has_value());
        EXPECT_FALSE(store->failed());
        EXPECT_FALSE(store->take_error().has_value());
    }
}

TEST(Failure, OfEveryReadOfALayersStep) {
    const std::vector<uint32_t> experts = {1, 4, 6};
    for (uint64_t failing = 0; failing < 9; ++failing) {
        SCOPED_TRACE("read " + std::to_string(failing));
        StoreOnSim store(make_layout(2, 8, 2), {6, 3}, {.seed = failing});
        store.disk.fail_request(failing, EIO);
        auto following = store.slices(0, gate, experts);
        const auto downs = store.slices(0, down, experts);
        following.insert(following.end(), downs.begin(), downs.end());
        size_t read = store.run(store.slices(0, up, experts), following, true).size();
        read += store.run(store.slices(0, gate, experts)).size();
        read += store.run(downs).size();
        // A slice whose read ahead failed is read again when its operation needs it.
        EXPECT_EQ(read, failing < 3 ? 8U : 9U);
        EXPECT_EQ(store->failed(), failing < 3);
        EXPECT_EQ(store->stats().read_errors, 1U);
    }
}

TEST(Failure, OfAllSlicesIsReportedForEach) {
    StoreOnSim store(make_layout(2, 8, 2), {2, 2});
    const auto demanded = store.slices(0, up, {0, 1, 2, 3, 4, 5, 6, 7});
    for (const SliceIndex slice : demanded) {
        store.fail_slice(slice, EIO);
    }
    EXPECT_TRUE(store.run(demanded).empty());
    EXPECT_EQ(store->stats().read_errors, 8U);
    store.disk.heal();
    EXPECT_EQ(store.run(demanded).size(), 8U);
}

TEST(Failure, LosesNoSlot) {
    StoreOnSim store(make_layout(2, 8, 2), {4, 4});
    store.fail_slice(store.slice(0, up, 0), EIO);
    for (int i = 0; i < 10; ++i) {
        store.run(store.slices(0, up, {0, 1, 2, 4, 5, 6}));
    }
    store.disk.heal();
    const auto four = store.slices(1, up, {0, 1, 2, 3});
    EXPECT_EQ(store.run(four).size(), 4U);
    EXPECT_TRUE(store.cached(four));
    EXPECT_EQ(store->stats().read_errors, 10U);
}

TEST(Failure, NamesFileSliceAndCause) {
    StoreOnSim store(make_layout(4, 8, 2), {8, 4});
    const SliceIndex slice = store.slice(3, down, 6);
    store.fail_slice(slice, EIO);
    store.run({slice});
    const auto error = store->take_error();
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->kind(), ErrorKind::io);
    EXPECT_THAT(error->message(), AllOf(HasSubstr("model-00002-of-00002.gguf"), HasSubstr("layer 3"), HasSubstr("down"),
                                        HasSubstr("expert 6"), HasSubstr(std::to_string(store.extent(slice).offset)),
                                        HasSubstr("Input/output error")));
    EXPECT_FALSE(error->remedy().empty());
}

TEST(Failure, OfAFileThatShrankSaysSo) {
    ModelLayout layout = make_layout(1, 8, 2);
    const SimOptions options{.file_bytes = layout.file_bytes[0] - 1};
    StoreOnSim store(std::move(layout), {4, 4}, options);
    EXPECT_TRUE(store.run(store.slices(0, down, {7})).empty());
    const auto error = store->take_error();
    ASSERT_TRUE(error.has_value());
    EXPECT_THAT(error->message(), AllOf(HasSubstr("file ended early"), HasSubstr("model-00001-of-00002.gguf is shorter "
                                                                                 "than when it was opened")));
    EXPECT_THAT(error->remedy(), HasSubstr("restore the file"));
}

TEST(Failure, TheFirstCauseIsKept) {
    StoreOnSim store(make_layout(2, 8, 2), {4, 4});
    store.fail_slice(store.slice(0, up, 1), EIO);
    store.run(store.slices(0, up, {1}));
    store.fail_slice(store.slice(0, gate, 2), ENXIO);
    store.run(store.slices(0, gate, {2}));
    const auto error = store->take_error();
    ASSERT_TRUE(error.has_value());
    EXPECT_THAT(error->message(), HasSubstr("up of expert 1"));
}

TEST(Failure, WakesEveryWaitingThread) {
    StoreOnSim store(make_layout(2, 8, 2), {4, 4}, {.in_order = true});
    const auto demanded = store.slices(0, up, {0, 1});
    store.fail_slice(demanded[0], EIO);
    store.disk.hold();
    store->begin(demanded, {}, true, {}, 4);
    store->start_reads();
    std::vector<std::thread> waiters;
    for (uint32_t i = 0; i < 4; ++i) {
        waiters.emplace_back([&] {
            const Pin ready = store->wait(0);
            ASSERT_TRUE(ready);
            EXPECT_EQ(ready->data, nullptr);
            EXPECT_EQ(ready->demanded_position, 0U);
        });
    }
    store.disk.let(1);
    for (std::thread &waiter : waiters) {
        waiter.join();
    }
    store.disk.resume();
    {
        const Pin ready = store->wait(1);
        ASSERT_TRUE(ready);
        EXPECT_TRUE(store.holds_its_bytes(*ready));
    }
    store->end();
}

TEST(Failure, WhileStreamingTheOthersStreamOn) {
    for (const uint64_t slots : {1, 2, 3}) {
        StoreOnSim store(make_layout(2, 8, 2), {slots, slots});
        const auto demanded = store.slices(0, up, {0, 1, 2, 3, 4, 5, 6, 7});
        store.fail_slice(demanded[2], EIO);
        store.fail_slice(demanded[7], EIO);
        EXPECT_EQ(store.run(demanded, store.slices(0, gate, {0, 1, 2, 3, 4, 5, 6, 7}), true).size(), 6U);
        EXPECT_EQ(store.disk.request_count(), 8U);
        store.disk.heal();
        EXPECT_EQ(store.run(demanded).size(), 8U);
    }
}

TEST(Failure, FreesItsPlaceAmongTheSlicesThatStream) {
    // More than 32 failures: if each kept its place in the streaming limit, no further read could begin.
    StoreOnSim store(make_layout(2, 128, 2), {64, 64});
    std::vector<uint32_t> experts(128);
    std::iota(experts.begin(), experts.end(), 0U);
    const auto demanded = store.slices(0, up, experts);
    for (uint32_t expert = 0; expert < 128; expert += 2) {
        store.fail_slice(demanded[expert], EIO);
    }
    EXPECT_EQ(store.run(demanded, {}, true).size(), 64U);
}

TEST(Failure, OfASliceReadAheadIsNoError) {
    StoreOnSim store(make_layout(2, 8, 2), {8, 4});
    const auto following = store.slices(0, gate, {0, 1});
    store.fail_slice(following[1], EIO);
    EXPECT_EQ(store.run(store.slices(0, up, {0, 1}), following, true).size(), 2U);
    EXPECT_EQ(store.run(store.slices(0, up, {0, 1})).size(), 2U); // reaps the other reads
    while (store.disk.in_flight() > 0) {
        store.run({});
    }
    EXPECT_FALSE(store->failed()) << "no op has missed it";
    EXPECT_FALSE(store->cached(following[1]));
}

TEST(Failure, LeavesTheFirstUseToWhoeverReadsTheSlice) {
    StoreOnSim store(make_layout(2, 8, 2), {4, 4});
    const auto demanded = store.slices(0, up, {3});
    store.fail_slice(demanded[0], EIO);
    store.run(demanded);
    store.disk.heal();
    store->begin(demanded, {}, true);
    EXPECT_TRUE(store->wait(0)->first_use);
    store->end();
}

} // namespace
} // namespace larder::test

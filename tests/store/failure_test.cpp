// Reads that fail: what the batch, the next batch and the user see of it.
#include "store_fixture.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <thread>

namespace larder::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using enum Projection;

TEST(Failure, FailsTheBatchAndLeavesTheNextClean) {
    StoreOnSim store(make_layout(2, 8, 2), {4, 4});
    const auto demanded = store.slices(0, up, {0, 3, 6});
    store.fail_slice(demanded[1], EIO);
    EXPECT_LT(store.run(demanded).size(), 3U);
    EXPECT_TRUE(store->failed());
    EXPECT_FALSE(store->cached(demanded[1]));
    EXPECT_EQ(store->stats().read_errors, 1U);

    store.disk.heal();
    EXPECT_EQ(store.run(demanded).size(), 3U) << "even before the error is taken";
    EXPECT_TRUE(store->failed());
    EXPECT_TRUE(store->take_error().has_value());
    EXPECT_FALSE(store->failed());
    EXPECT_FALSE(store->take_error().has_value());
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
    store->begin(demanded, {}, true);
    store->start_reads();
    std::vector<std::thread> waiters;
    for (uint32_t i = 0; i < 4; ++i) {
        waiters.emplace_back([&, i] { EXPECT_EQ(store->wait(i % 2), nullptr); });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    store.disk.let(1);
    for (std::thread &waiter : waiters) {
        waiter.join();
    }
    store->end();
    store.disk.resume();
}

TEST(Failure, ReadsInFlightAtAFailureFinishAndMayBeUsedLater) {
    StoreOnSim store(make_layout(2, 8, 2), {4, 4}, {.in_order = true});
    const auto demanded = store.slices(0, up, {0, 1, 2});
    store.fail_slice(demanded[0], EIO);
    store.disk.hold();
    store.disk.let(1);
    EXPECT_TRUE(store.run(demanded).empty());
    EXPECT_EQ(store.disk.in_flight(), 2U);
    store.disk.resume();
    store.disk.heal();
    EXPECT_EQ(store.run(demanded).size(), 3U);
    EXPECT_EQ(store.reads_of(demanded[0]), 2U);
    EXPECT_EQ(store.disk.request_count(), 4U);
}

TEST(Failure, WhileStreamingDropsWhatWasNotAskedFor) {
    StoreOnSim store(make_layout(2, 8, 2), {2, 2}, {.in_order = true});
    const auto demanded = store.slices(0, up, {0, 1, 2, 3, 4, 5, 6, 7});
    store.fail_slice(demanded[2], EIO);
    EXPECT_LE(store.run(demanded).size(), 3U);
    EXPECT_LE(store.disk.request_count(), 4U);
    store.disk.heal();
    EXPECT_EQ(store.run(demanded).size(), 8U);
}

} // namespace
} // namespace larder::test

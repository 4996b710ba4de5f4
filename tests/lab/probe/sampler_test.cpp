// One sample on the simulated disk: what it reads, how many reads are in flight, and how it reports a failed read.
#include "lab/probe/sampler.h"

#include "base/bytes.h"
#include "base/error.h"
#include "support/sim_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <thread>

namespace larder::test {
namespace {

using testing::HasSubstr;

constexpr uint64_t request_bytes = 64 * KiB;

std::vector<WindowPlace> places_of(uint64_t n) {
    const Windows windows({n * request_bytes}, request_bytes, 3);
    std::vector<WindowPlace> places;
    for (uint64_t i = 0; i < n; i++) {
        places.push_back(windows.random(i));
    }
    return places;
}

DiskSample sample_of(SimReader &reader, uint64_t n, uint32_t depth, double seconds = 60) {
    return take_sample(reader, {"a.bin"}, places_of(n), {request_bytes, depth, seconds});
}

std::optional<Error> error_of(SimReader &reader, uint64_t n, uint32_t depth) {
    try {
        sample_of(reader, n, depth);
    } catch (const Error &error) {
        return error;
    }
    return std::nullopt;
}

TEST(Sampler, ReadsEveryPlaceOnceAndNoMoreAtOnceThanTheDepth) {
    for (const uint32_t depth : {1U, 3U, 16U, 200U}) {
        SimReader reader;
        const DiskSample sample = sample_of(reader, 100, depth);
        EXPECT_EQ(sample.n_request, 100U);
        EXPECT_EQ(sample.bytes_read, 100 * request_bytes);
        EXPECT_EQ(reader.request_count(), 100U);
        for (const WindowPlace &place : places_of(100)) {
            EXPECT_EQ(reader.reads_at(place.file, place.offset), 1U);
        }
        EXPECT_EQ(reader.max_in_flight(), std::min(depth, 100U));
        EXPECT_GT(sample.bytes_per_second, 0);
        EXPECT_GT(sample.latency_us_median, 0);
        EXPECT_GE(sample.latency_us_p99, sample.latency_us_median);
    }
}

TEST(Sampler, StopsWhenTheTimeIsOverAndCountsWhatWasUnderWay) {
    SimReader reader;
    const DiskSample sample = sample_of(reader, 1000, 4, 0);
    EXPECT_GE(sample.n_request, 4U);
    EXPECT_LT(sample.n_request, 1000U);
    EXPECT_EQ(sample.n_request, reader.request_count());
    EXPECT_EQ(reader.in_flight(), 0U);
}

TEST(Sampler, NamesFileAndPlaceOfAReadThatFailedWithNothingLeftUnderWay) {
    SimReader reader;
    reader.fail_request(20, EIO);
    const std::optional<Error> error = error_of(reader, 100, 8);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::io);
    EXPECT_THAT(error->what(), HasSubstr("a.bin at offset"));
    EXPECT_THAT(error->what(), HasSubstr("Input/output error"));
    EXPECT_EQ(reader.in_flight(), 0U);
    EXPECT_LT(reader.request_count(), 40U) << "nothing new is started after a failure";
}

// A poll may return without a result after a wake or a time-out.
TEST(Sampler, TakesNoWakeForTheEndOfItsReads) {
    SimReader reader;
    std::atomic<bool> over = false;
    std::thread other([&] {
        while (!over) {
            reader.wake();
            std::this_thread::yield();
        }
    });
    const DiskSample sample = sample_of(reader, 200, 4);
    over = true;
    other.join();
    EXPECT_EQ(sample.n_request, 200U);
    EXPECT_EQ(reader.in_flight(), 0U);
}

TEST(Sampler, WaitsForAReadThatTakesLongAlsoWhenItIsWokenMeanwhile) {
    SimReader reader;
    reader.hold();
    std::thread other([&] {
        for (uint64_t wakes = 0; wakes < 3; wakes++) {
            while (reader.waiting() == 0) {
                std::this_thread::yield();
            }
            reader.wake();
        }
        reader.resume();
    });
    EXPECT_EQ(sample_of(reader, 10, 4).n_request, 10U);
    other.join();
    EXPECT_EQ(reader.in_flight(), 0U);
}

TEST(Sampler, SaysThatTheFileBecameShorter) {
    SimOptions options;
    options.file_bytes = 50 * request_bytes;
    SimReader reader(options);
    const std::optional<Error> error = error_of(reader, 100, 8);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::io);
    EXPECT_THAT(error->what(), HasSubstr("a.bin at offset"));
    EXPECT_THAT(error->what(), HasSubstr("shorter"));
}

} // namespace
} // namespace larder::test

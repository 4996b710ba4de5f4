// The simulated disk obeys the contract of io.h, and its faults work as documented.
#include "io/test_file.h"

#include <gmock/gmock.h>

#include <thread>

namespace larder::test {

namespace {

std::vector<ReadRequest> windows(const Memory &memory, uint64_t count) {
    std::vector<ReadRequest> requests;
    for (uint64_t i = 0; i < count; i++) {
        requests.push_back({0, i * 4096, memory.at(i * 4096), 4096, 4096, i});
    }
    return requests;
}

std::vector<uint64_t> tags_of(const std::vector<ReadResult> &results) {
    std::vector<uint64_t> tags(results.size());
    std::transform(results.begin(), results.end(), tags.begin(), [](const ReadResult &result) { return result.tag; });
    return tags;
}

} // namespace

TEST(SimReader, ReadsWhatByteAtSays) {
    SimReader reader;
    const Memory memory(8192);
    EXPECT_EQ(read_one(reader, {3, 4096, memory.at(0), 8192, 8192, 1}).error, 0);
    for (uint64_t i = 0; i < 8192; i++) {
        ASSERT_EQ(*memory.at(i), SimReader::byte_at(3, 4096 + i));
    }
    EXPECT_FALSE(SimReader::matches(2, 4096, memory.at(0), 8192));
}

TEST(SimReader, OrdersCompletionsByItsSeed) {
    const Memory memory(64 * 4096);
    std::vector<std::vector<uint64_t>> orders;
    for (const uint64_t seed : {1U, 1U, 2U}) {
        SimReader reader({.seed = seed});
        reader.submit(windows(memory, 64));
        orders.push_back(tags_of(poll_all(reader)));
    }
    EXPECT_EQ(orders[0].size(), 64U);
    EXPECT_EQ(orders[0], orders[1]);
    EXPECT_NE(orders[0], orders[2]);
    EXPECT_FALSE(std::is_sorted(orders[0].begin(), orders[0].end()));
}

TEST(SimReader, FailsRequestsAndRangesUntilHealed) {
    SimReader reader;
    reader.fail_request(1, EIO);
    reader.fail_range(0, 3 * 4096 + 100, 1, ENXIO);
    const Memory memory(4 * 4096);
    reader.submit(windows(memory, 4));
    for (const ReadResult &result : poll_all(reader)) {
        EXPECT_EQ(result.error, result.tag == 1 ? EIO : result.tag == 3 ? ENXIO : 0);
    }
    EXPECT_EQ(*memory.at(4096), SimReader::unread_byte);
    reader.heal();
    EXPECT_EQ(read_one(reader, {0, 3 * 4096, memory.at(0), 4096, 4096, 1}).error, 0);
    EXPECT_EQ(reader.reads_at(0, 3 * 4096), 2U);
    EXPECT_EQ(reader.request_count(), 5U);
    EXPECT_EQ(reader.max_in_flight(), 4U);
}

TEST(SimReader, CompletesALateRangeLast) {
    SimReader reader;
    reader.delay_range(0, 5 * 4096, 4096);
    const Memory memory(16 * 4096);
    reader.submit(windows(memory, 16));
    EXPECT_EQ(tags_of(poll_all(reader)).back(), 5U);
}

TEST(SimReader, ComesUpShortAtTheEndOfItsFile) {
    SimReader reader({.file_bytes = 5000});
    const Memory memory(8192);
    EXPECT_EQ(read_one(reader, {0, 0, memory.at(0), 8192, 5000, 1}).bytes_read, 5000U);
    EXPECT_EQ(read_one(reader, {0, 0, memory.at(0), 8192, 5001, 1}).error, ENODATA);
}

TEST(SimReader, HoldsCompletionsBackUntilTold) {
    SimReader reader({.in_order = true});
    reader.hold();
    const Memory memory(4 * 4096);
    reader.submit(windows(memory, 4));
    std::vector<ReadResult> results(4);
    EXPECT_EQ(reader.poll(results, at_once), 0U);
    reader.let(1);
    EXPECT_EQ(reader.poll(results, for_ever), 1U);
    EXPECT_EQ(reader.poll(results, at_once), 0U);
    std::thread other([&] { reader.resume(); });
    EXPECT_GE(reader.poll(results, for_ever), 1U);
    other.join();
    poll_all(reader);
    EXPECT_EQ(reader.in_flight(), 0U);
}

TEST(SimReader, IsWokenByAnotherThreadOrBeforehand) {
    SimReader reader;
    reader.hold();
    const Memory memory(4096);
    reader.submit(windows(memory, 1));
    std::vector<ReadResult> results(1);
    std::thread other([&] {
        while (reader.waiting() == 0) {
            std::this_thread::yield();
        }
        reader.wake();
    });
    EXPECT_EQ(reader.poll(results, for_ever), 0U);
    other.join();
    reader.wake();
    EXPECT_EQ(reader.poll(results, at_once), 0U);
    EXPECT_EQ(reader.poll(results, for_ever), 0U);
    EXPECT_EQ(reader.in_flight(), 1U);
    reader.resume();
    EXPECT_EQ(reader.poll(results, for_ever), 1U);
}

TEST(SimReader, EndsAWaitByItsOwnTime) {
    SimReader reader;
    reader.hold();
    const Memory memory(4096);
    reader.submit(windows(memory, 1));
    std::vector<ReadResult> results(1);
    std::thread other([&] {
        while (reader.waiting() == 0) {
            std::this_thread::yield();
        }
        reader.pass(std::chrono::milliseconds(999));
        EXPECT_EQ(reader.waiting(), 1U);
        reader.pass(std::chrono::milliseconds(1));
    });
    EXPECT_EQ(reader.poll(results, std::chrono::milliseconds(1000)), 0U);
    other.join();
    EXPECT_EQ(reader.now(), std::chrono::milliseconds(1000));
}

TEST(SimReader, PassesTheTimeOfAStalledDiskWithoutWaiting) {
    SimReader reader;
    reader.stall();
    const Memory memory(4096);
    reader.submit(windows(memory, 1));
    std::vector<ReadResult> results(1);
    EXPECT_EQ(reader.poll(results, std::chrono::seconds(30)), 0U);
    EXPECT_EQ(reader.poll(results, std::chrono::seconds(30)), 0U);
    EXPECT_EQ(reader.now(), std::chrono::seconds(60));
    reader.resume();
    EXPECT_EQ(reader.poll(results, std::chrono::seconds(30)), 1U);
    EXPECT_EQ(reader.now(), std::chrono::seconds(60));
}

TEST(SimReader, TellsTheFilesItWasGiven) {
    SimReader reader({.file_bytes = 5000});
    EXPECT_EQ(reader.identity(0).bytes, 5000U);
    EXPECT_EQ(reader.identity(1), reader.identity(1));
    EXPECT_NE(reader.identity(0), reader.identity(1));
    FileIdentity replaced = reader.identity(1);
    replaced.changed_ns++;
    reader.set_identity(1, replaced);
    EXPECT_EQ(reader.identity(1), replaced);
}

TEST(SimReaderDeathTest, CatchesTwoReadsIntoTheSameMemory) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const Memory memory(8192);
    const std::vector<ReadRequest> overlapping = {{0, 0, memory.at(0), 8192, 8192, 1},
                                                  {0, 8192, memory.at(4096), 4096, 4096, 2}};
    EXPECT_DEATH(
        {
            SimReader reader;
            reader.submit(overlapping);
        },
        "apart");
}

} // namespace larder::test

#include "base/bytes.h"
#include "io/queue.h"
#include "io/read_progress.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace larder {

namespace {

char *const memory = reinterpret_cast<char *>(uintptr_t{1} << 20); // only a base address; no memory is written

uint64_t long_enough() { return GiB; }
// For steps that must not need the size of the file.
uint64_t never_asked() {
    ADD_FAILURE() << "asked for the size of the file";
    return 0;
}

ReadRequest request_of(uint64_t bytes, uint64_t bytes_needed) { return {0, 8192, memory, bytes, bytes_needed, 42}; }

} // namespace

TEST(ReadProgress, IsDoneWhenTheWholeWindowArrives) {
    ReadProgress progress(request_of(8192, 8000), true);
    EXPECT_EQ(progress.offset(), 8192U);
    EXPECT_EQ(progress.bytes(), 8192U);
    EXPECT_TRUE(progress.advance(8192, never_asked));
    EXPECT_EQ(progress.result().tag, 42U);
    EXPECT_EQ(progress.result().error, 0);
    EXPECT_EQ(progress.result().bytes_read, 8192U);
}

TEST(ReadProgress, ContinuesAShortReadWhereItStopped) {
    ReadProgress progress(request_of(8192, 8192), false);
    EXPECT_FALSE(progress.advance(5000, never_asked));
    EXPECT_EQ(progress.offset(), 8192U + 5000);
    EXPECT_EQ(progress.into(), memory + 5000);
    EXPECT_EQ(progress.bytes(), 8192U - 5000);
    EXPECT_TRUE(progress.advance(3192, never_asked));
    EXPECT_EQ(progress.result().error, 0);
}

TEST(ReadProgress, ContinuesADirectReadAtAWholeBlock) {
    ReadProgress progress(request_of(16384, 16384), true);
    EXPECT_FALSE(progress.advance(5000, never_asked));
    EXPECT_EQ(progress.offset(), 8192U + 4096);
    EXPECT_EQ(progress.into(), memory + 4096);
    EXPECT_EQ(progress.bytes(), 16384U - 4096);
    EXPECT_FALSE(progress.advance(8192, never_asked));
    EXPECT_EQ(progress.offset(), 8192U + 12288);
    EXPECT_TRUE(progress.advance(4096, never_asked));
    EXPECT_EQ(progress.result().error, 0);
    EXPECT_EQ(progress.result().bytes_read, 16384U);
}

TEST(ReadProgress, IsContentWithWhatIsNeeded) {
    ReadProgress progress(request_of(8192, 5000), true);
    EXPECT_TRUE(progress.advance(5000, never_asked));
    EXPECT_EQ(progress.result().error, 0);
    EXPECT_EQ(progress.result().bytes_read, 5000U);
}

TEST(ReadProgress, EndsWhereTheFileEnds) {
    ReadProgress progress(request_of(8192, 8192), true);
    EXPECT_FALSE(progress.advance(5000, never_asked));
    EXPECT_EQ(progress.offset(), 8192U + 4096);
    EXPECT_TRUE(progress.advance(904, [] { return 8192U + 5000; })); // from 4096 to 5000
    EXPECT_EQ(progress.result().error, ENODATA);
    EXPECT_EQ(progress.result().bytes_read, 5000U);

    ReadProgress nothing(request_of(8192, 1), false);
    EXPECT_TRUE(nothing.advance(0, [] { return 8192U; }));
    EXPECT_EQ(nothing.result().error, ENODATA);
}

// A file system, for example one on a network, may return less than a disk block.
TEST(ReadProgress, GoesOnInsideABlockWhereTheFileDoes) {
    ReadProgress progress(request_of(8192, 8192), true);
    EXPECT_FALSE(progress.advance(5000, never_asked));
    EXPECT_FALSE(progress.advance(904, long_enough));
    EXPECT_EQ(progress.offset(), 8192U + 5000);
    EXPECT_EQ(progress.into(), memory + 5000);
    EXPECT_EQ(progress.bytes(), 8192U - 5000);
    EXPECT_FALSE(progress.advance(1000, never_asked));
    EXPECT_EQ(progress.offset(), 8192U + 6000);
    EXPECT_TRUE(progress.advance(2192, never_asked));
    EXPECT_EQ(progress.result().error, 0);
    EXPECT_EQ(progress.result().bytes_read, 8192U);
}

TEST(ReadProgress, ReportsAFileSystemThatDoesNotReturnWhatTheFileHas) {
    ReadProgress refused(request_of(8192, 8192), true);
    EXPECT_FALSE(refused.advance(5000, never_asked));
    EXPECT_FALSE(refused.advance(904, long_enough));
    EXPECT_TRUE(refused.advance(-EINVAL, never_asked)); // the file system refuses unaligned reads
    EXPECT_EQ(refused.result().error, EIO);

    for (const bool direct : {true, false}) {
        ReadProgress stalled(request_of(8192, 8192), direct);
        EXPECT_FALSE(stalled.advance(4096, never_asked));
        int rounds = 1;
        while (!stalled.advance(0, long_enough)) {
            EXPECT_EQ(stalled.offset(), 8192U + 4096);
            ASSERT_LT(rounds++, 100);
        }
        EXPECT_EQ(stalled.result().error, EIO);
        EXPECT_EQ(stalled.result().bytes_read, 4096U);
    }
}

TEST(ReadProgress, RetriesAnInterruptedRead) {
    for (const int error : {EINTR, EAGAIN, ECANCELED, EFAULT}) {
        ReadProgress progress(request_of(8192, 8192), true);
        EXPECT_FALSE(progress.advance(-error, never_asked));
        EXPECT_EQ(progress.offset(), 8192U);
        EXPECT_TRUE(progress.advance(8192, never_asked));
        EXPECT_EQ(progress.result().error, 0);
    }
}

TEST(ReadProgress, GivesUpOnAKernelThatSaysAgainForEver) {
    ReadProgress progress(request_of(8192, 8192), true);
    int rounds = 1;
    while (!progress.advance(-EAGAIN, never_asked)) {
        ASSERT_LT(rounds++, 100000);
    }
    EXPECT_EQ(progress.result().error, EAGAIN);
}

TEST(ReadProgress, ReportsMemoryThatIsReallyNotThere) {
    ReadProgress progress(request_of(8192, 8192), true);
    int rounds = 1;
    while (!progress.advance(-EFAULT, never_asked)) {
        ASSERT_LT(rounds++, 100);
    }
    EXPECT_EQ(progress.result().error, EFAULT);
}

TEST(ReadProgress, ReportsAReadError) {
    ReadProgress progress(request_of(8192, 8192), true);
    EXPECT_FALSE(progress.advance(4096, never_asked));
    EXPECT_TRUE(progress.advance(-EIO, never_asked));
    EXPECT_EQ(progress.result().error, EIO);
    EXPECT_EQ(progress.result().bytes_read, 4096U);
}

TEST(ReadProgress, SplitsAWindowThatOneReadCannotHold) {
    ReadProgress progress(request_of(5 * GiB, 5 * GiB), true);
    int reads = 1;
    while (!progress.advance(progress.bytes(), never_asked)) {
        EXPECT_EQ(progress.offset() % direct_io_alignment, 0U);
        ASSERT_LT(reads++, 10);
    }
    EXPECT_EQ(reads, 5);
    EXPECT_EQ(progress.result().bytes_read, 5 * GiB);
}

TEST(Queue, GivesBackInOrderUpToItsCapacity) {
    Queue<uint64_t> queue(50);
    std::deque<uint64_t> model;
    std::mt19937_64 random(3);
    for (uint64_t i = 0; i < 100000; i++) {
        if (!model.empty() && (model.size() == 50 || random() % 2 == 0)) {
            ASSERT_EQ(queue.pop(), model.front()) << "at step " << i;
            model.pop_front();
        } else {
            queue.push(i);
            model.push_back(i);
        }
        ASSERT_EQ(queue.size(), model.size());
        ASSERT_EQ(queue.empty(), model.empty());
    }
}

TEST(QueueDeathTest, ChecksItsCapacity) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            Queue<int> queue(2);
            for (int i = 0; i < 3; i++) {
                queue.push(i);
            }
        },
        "items_.size");
}

} // namespace larder

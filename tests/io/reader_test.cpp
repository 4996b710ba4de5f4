// The contract of Reader in io.h: both real backends, with and without direct I/O, on files on disk.
#include "base/error.h"
#include "io/test_file.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace larder::test {

namespace {

struct Mode {
    IoBackend backend = IoBackend::automatic;
    DirectIo direct = DirectIo::automatic;
};

std::string name_of(const testing::TestParamInfo<Mode> &mode) {
    return std::string(mode.param.backend == IoBackend::uring ? "Uring" : "Pread") +
           (mode.param.direct == DirectIo::off ? "Buffered" : "Direct");
}

class ReaderTest : public testing::TestWithParam<Mode> {
  protected:
    // A reader in this mode, or null if kernel or file system do not support it; then the test is skipped.
    static std::unique_ptr<Reader> open(const std::vector<std::string> &paths, uint32_t depth = 8,
                                        uint32_t requests_max = 0) {
        try {
            return open_reader(paths, {GetParam().backend, GetParam().direct, depth, requests_max});
        } catch (const Error &error) {
            return nullptr;
        }
    }
};

} // namespace

#define OPEN_OR_SKIP(reader, ...)                                                                                      \
    std::unique_ptr<Reader> reader = open(__VA_ARGS__);                                                                \
    if (reader == nullptr) {                                                                                           \
        GTEST_SKIP() << "this mode is not to be had here";                                                             \
    }

TEST_P(ReaderTest, SaysWhatItUses) {
    const TestFile file(100);
    OPEN_OR_SKIP(reader, {file.path()});
    EXPECT_EQ(reader->info().backend, GetParam().backend == IoBackend::uring ? "io_uring" : "pread");
    EXPECT_EQ(reader->info().direct_io, GetParam().direct == DirectIo::required);
    EXPECT_EQ(reader->info().in_memory, file.in_memory());
    EXPECT_EQ(reader->info().notice.empty(), !file.in_memory());
}

TEST_P(ReaderTest, ReadsTheBytesThatPlainPreadReads) {
    const TestFile file(10 * MiB);
    OPEN_OR_SKIP(reader, {file.path()});
    const uint64_t window = 1 * MiB;
    const Memory memory(10 * window);
    std::vector<ReadRequest> requests;
    for (uint64_t i = 0; i < 10; i++) {
        requests.push_back({0, i * window, memory.at(i * window), window, window, 100 + i});
    }
    reader->submit(requests);
    EXPECT_EQ(reader->in_flight(), 10U);
    const std::vector<ReadResult> results = poll_all(*reader);
    ASSERT_EQ(results.size(), 10U);
    std::vector<uint64_t> tags;
    for (const ReadResult &result : results) {
        EXPECT_EQ(result.error, 0);
        EXPECT_EQ(result.bytes_read, window);
        tags.push_back(result.tag);
    }
    EXPECT_THAT(tags, testing::UnorderedElementsAre(100, 101, 102, 103, 104, 105, 106, 107, 108, 109));
    EXPECT_EQ(reader->in_flight(), 0U);

    const UniqueFd plain(::open(file.path().c_str(), O_RDONLY));
    std::vector<char> expected(10 * window);
    ASSERT_EQ(::pread(plain.get(), expected.data(), expected.size(), 0), static_cast<ssize_t>(expected.size()));
    EXPECT_EQ(std::memcmp(expected.data(), memory.at(0), expected.size()), 0);
}

TEST_P(ReaderTest, ReadsSeveralFiles) {
    const TestFile first(64 * KiB, 0);
    const TestFile second(64 * KiB, 1);
    OPEN_OR_SKIP(reader, {first.path(), second.path()});
    const Memory memory(16 * KiB);
    const std::vector<ReadRequest> requests = {{1, 4 * KiB, memory.at(0), 8 * KiB, 8 * KiB, 1},
                                               {0, 4 * KiB, memory.at(8 * KiB), 8 * KiB, 8 * KiB, 2}};
    reader->submit(requests);
    ASSERT_EQ(poll_all(*reader).size(), 2U);
    EXPECT_TRUE(SimReader::matches(1, 4 * KiB, memory.at(0), 8 * KiB));
    EXPECT_TRUE(SimReader::matches(0, 4 * KiB, memory.at(8 * KiB), 8 * KiB));
}

TEST_P(ReaderTest, AcceptsAWindowThatReachesPastTheEndOfTheFile) {
    const TestFile file(64 * KiB + 1000);
    OPEN_OR_SKIP(reader, {file.path()});
    const Memory memory(16 * KiB);
    const ReadResult result = read_one(*reader, {0, 56 * KiB, memory.at(0), 16 * KiB, 8 * KiB + 1000, 7});
    EXPECT_EQ(result.error, 0);
    EXPECT_EQ(result.tag, 7U);
    EXPECT_EQ(result.bytes_read, 8 * KiB + 1000);
    EXPECT_TRUE(SimReader::matches(0, 56 * KiB, memory.at(0), result.bytes_read));
}

TEST_P(ReaderTest, ReportsAFileThatEndsBeforeWhatIsNeeded) {
    const TestFile file(64 * KiB + 1000);
    OPEN_OR_SKIP(reader, {file.path()});
    const Memory memory(16 * KiB);
    const ReadResult result = read_one(*reader, {0, 56 * KiB, memory.at(0), 16 * KiB, 8 * KiB + 1001, 7});
    EXPECT_EQ(result.error, ENODATA);
    EXPECT_EQ(result.bytes_read, 8 * KiB + 1000);
    EXPECT_EQ(read_one(*reader, {0, 1 * MiB, memory.at(0), 4 * KiB, 1, 8}).error, ENODATA);
}

TEST_P(ReaderTest, ReportsAFileTruncatedWhileOpenAndGoesOn) {
    const TestFile file(1 * MiB);
    OPEN_OR_SKIP(reader, {file.path()});
    file.truncate(10000);
    const Memory memory(16 * KiB);
    EXPECT_EQ(read_one(*reader, {0, 512 * KiB, memory.at(0), 8 * KiB, 8 * KiB, 1}).error, ENODATA);
    EXPECT_EQ(read_one(*reader, {0, 8 * KiB, memory.at(0), 8 * KiB, 8 * KiB, 2}).error, ENODATA);
    EXPECT_EQ(read_one(*reader, {0, 0, memory.at(0), 8 * KiB, 8 * KiB, 3}).error, 0);
    EXPECT_TRUE(SimReader::matches(0, 0, memory.at(0), 8 * KiB));
}

TEST_P(ReaderTest, ReportsMemoryThatCannotBeWritten) {
    const TestFile file(64 * KiB);
    OPEN_OR_SKIP(reader, {file.path()});
    void *forbidden = ::mmap(nullptr, 8 * KiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const ReadResult result = read_one(*reader, {0, 0, static_cast<char *>(forbidden), 8 * KiB, 8 * KiB, 1});
    EXPECT_EQ(result.error, EFAULT);
    ::munmap(forbidden, 8 * KiB);
    const Memory memory(8 * KiB);
    EXPECT_EQ(read_one(*reader, {0, 0, memory.at(0), 8 * KiB, 8 * KiB, 2}).error, 0);
}

TEST_P(ReaderTest, TakesManyMoreRequestsThanItsDepth) {
    const TestFile file(4 * MiB);
    OPEN_OR_SKIP(reader, {file.path()}, 3);
    const Memory memory(4 * MiB);
    const uint64_t window = 4 * KiB;
    uint64_t polled = 0;
    std::vector<ReadRequest> requests;
    std::vector<ReadResult> results(5);
    for (uint64_t i = 0; i < 1024; i++) {
        const uint64_t place = (i * 389) % 1024; // 389 and 1024 are coprime: each window occurs once
        requests.push_back({0, place * window, memory.at(place * window), window, window, place});
        if (requests.size() == 100) {
            reader->submit(requests);
            requests.clear();
            const size_t count = reader->poll(results, at_once);
            EXPECT_LE(count, results.size());
            polled += count;
        }
    }
    reader->submit(requests);
    polled += poll_all(*reader, 5).size();
    EXPECT_EQ(polled, 1024U);
    EXPECT_TRUE(SimReader::matches(0, 0, memory.at(0), 4 * MiB));
}

TEST_P(ReaderTest, TakesAsManyRequestsAsItWasOpenedFor) {
    const TestFile file(64 * KiB);
    OPEN_OR_SKIP(reader, {file.path()}, 64, 5);
    const Memory memory(64 * KiB);
    for (int round = 0; round < 4; round++) {
        std::vector<ReadRequest> requests;
        for (uint64_t i = 0; i < 5; i++) {
            requests.push_back({0, i * 4 * KiB, memory.at(i * 4 * KiB), 4 * KiB, 4 * KiB, i});
        }
        reader->submit(std::span(requests).first(3));
        reader->submit(std::span(requests).last(2));
        EXPECT_EQ(poll_all(*reader).size(), 5U);
    }
    EXPECT_TRUE(SimReader::matches(0, 0, memory.at(0), 20 * KiB));
}

TEST_P(ReaderTest, ChecksThatNoMoreAreSubmitted) {
    const TestFile file(64 * KiB);
    if (open({file.path()}) == nullptr) {
        GTEST_SKIP() << "this mode is not to be had here";
    }
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const Memory memory(64 * KiB);
    const auto submit_six_of_five = [&] {
        const std::unique_ptr<Reader> reader = open({file.path()}, 8, 5);
        for (uint64_t i = 0; i < 6; i++) {
            const ReadRequest request{0, i * 4 * KiB, memory.at(i * 4 * KiB), 4 * KiB, 4 * KiB, i};
            reader->submit({&request, 1});
        }
    };
    EXPECT_DEATH(submit_six_of_five(), "requests_max_");
}

TEST_P(ReaderTest, TellsWhatItsDescriptorLeadsTo) {
    const TestFile first(4 * KiB);
    const TestFile second(8 * KiB);
    OPEN_OR_SKIP(reader, {first.path(), second.path()});
    EXPECT_EQ(reader->identity(0), identity_of(first.path()));
    const FileIdentity before = reader->identity(1);
    EXPECT_EQ(before, identity_of(second.path()));
    second.truncate(6 * KiB);
    EXPECT_NE(reader->identity(1), before) << "it is looked up each time";
    EXPECT_EQ(reader->identity(1).bytes, 6 * KiB);

    const TestFile replacement(8 * KiB);
    std::filesystem::rename(replacement.path(), first.path());
    EXPECT_EQ(reader->identity(0).bytes, 4 * KiB) << "the file that was opened, not the one at its path now";
    EXPECT_NE(reader->identity(0), identity_of(first.path()));
}

// A file of sysfs reports a size of 4096 bytes and returns only those of its text.
TEST_P(ReaderTest, DoesNotTakeAShortReadForTheEndOfTheFile) {
    const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
    if (GetParam().direct != DirectIo::off || ::access(path.c_str(), R_OK) != 0 ||
        std::filesystem::file_size(path) != 4 * KiB) {
        GTEST_SKIP() << "no such file for this mode";
    }
    OPEN_OR_SKIP(reader, {path});
    const Memory memory(8 * KiB);
    const ReadResult result = read_one(*reader, {0, 0, memory.at(0), 4 * KiB, 4 * KiB, 1});
    EXPECT_EQ(result.error, EIO);
    EXPECT_GT(result.bytes_read, 0U);
    EXPECT_EQ(read_one(*reader, {0, 0, memory.at(0), 4 * KiB, result.bytes_read, 2}).error, 0);
    EXPECT_EQ(read_one(*reader, {0, 0, memory.at(0), 8 * KiB, 4 * KiB + 1, 3}).error, ENODATA);
}

TEST_P(ReaderTest, PollReturnsAtOnceWithNothingInFlight) {
    const TestFile file(4 * KiB);
    OPEN_OR_SKIP(reader, {file.path()});
    std::vector<ReadResult> results(4);
    EXPECT_EQ(reader->poll(results, for_ever), 0U);
    EXPECT_EQ(reader->poll(results, at_once), 0U);
    EXPECT_EQ(reader->poll({}, for_ever), 0U);
}

TEST_P(ReaderTest, WaitsForReadsInFlightBeforeItGoes) {
    const TestFile file(8 * MiB);
    const Memory memory(8 * MiB);
    const std::vector<char> zeros(8 * MiB);
    for (int round = 0; round < 10; round++) {
        OPEN_OR_SKIP(reader, {file.path()}, 4);
        std::vector<ReadRequest> requests;
        for (uint64_t i = 0; i < 64; i++) {
            requests.push_back({0, i * 128 * KiB, memory.at(i * 128 * KiB), 128 * KiB, 128 * KiB, i});
        }
        reader->submit(requests);
        reader.reset();
        std::memset(memory.at(0), 0, zeros.size());
        std::this_thread::sleep_for(std::chrono::milliseconds(2)); // long enough for a forgotten read to complete
        EXPECT_EQ(std::memcmp(memory.at(0), zeros.data(), zeros.size()), 0);
    }
}

TEST_P(ReaderTest, MayBeUsedByThreadsInTurn) {
    const TestFile file(1 * MiB);
    OPEN_OR_SKIP(reader, {file.path()});
    const Memory memory(1 * MiB);
    std::mutex turn;
    std::atomic<uint64_t> polled = 0;
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 4; t++) {
        threads.emplace_back([&, t] {
            for (uint64_t i = 0; i < 64; i++) {
                const uint64_t offset = (t * 64 + i) * 4 * KiB;
                const ReadRequest request{0, offset, memory.at(offset), 4 * KiB, 4 * KiB, offset};
                ReadResult result;
                const std::lock_guard lock(turn);
                reader->submit({&request, 1});
                polled += reader->poll({&result, 1}, i % 2 == 0 ? for_ever : at_once);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join(); // reads submitted by a thread that has ended are still in flight
    }
    for (const ReadResult &result : poll_all(*reader)) {
        EXPECT_EQ(result.error, 0);
        polled++;
    }
    EXPECT_EQ(polled, 256U);
    EXPECT_TRUE(SimReader::matches(0, 0, memory.at(0), 1 * MiB));
}

TEST_P(ReaderTest, LeavesThePageCacheEmpty) {
    const TestFile file(8 * MiB);
    if (file.cached_bytes() > 0) {
        GTEST_SKIP() << "this file system lives in the page cache";
    }
    OPEN_OR_SKIP(reader, {file.path()});
    const Memory memory(8 * MiB);
    std::vector<ReadRequest> requests;
    for (uint64_t i = 0; i < 8; i++) {
        requests.push_back({0, i * MiB, memory.at(i * MiB), 1 * MiB, 1 * MiB, i});
    }
    reader->submit(requests);
    EXPECT_EQ(poll_all(*reader).size(), 8U);
    EXPECT_TRUE(SimReader::matches(0, 0, memory.at(0), 8 * MiB));
    if (reader->info().direct_io) {
        EXPECT_EQ(file.cached_bytes(), 0U);
    } else {
        EXPECT_LE(file.cached_bytes(), 64 * KiB); // a page that the kernel is still using may stay
    }
}

TEST_P(ReaderTest, RefusesAMissingFileByName) {
    const TestFile file(4 * KiB);
    try {
        open_reader({file.path(), "/no/such/model.gguf"}, {GetParam().backend, GetParam().direct, 8});
        FAIL() << "opened";
    } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::io);
        EXPECT_THAT(error.what(), testing::HasSubstr("/no/such/model.gguf"));
        EXPECT_NE(error.remedy(), "");
    }
}

TEST_P(ReaderTest, RefusesADirectoryByName) {
    const std::string folder = std::filesystem::temp_directory_path().string();
    try {
        open_reader({folder}, {GetParam().backend, GetParam().direct, 8});
        FAIL() << "opened";
    } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::io);
        EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr(folder), testing::HasSubstr("not a file")));
    }
}

INSTANTIATE_TEST_SUITE_P(Modes, ReaderTest,
                         testing::Values(Mode{IoBackend::uring, DirectIo::required},
                                         Mode{IoBackend::uring, DirectIo::off},
                                         Mode{IoBackend::pread, DirectIo::required},
                                         Mode{IoBackend::pread, DirectIo::off}),
                         name_of);

} // namespace larder::test

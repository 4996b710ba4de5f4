// open_reader() if the kernel or the file system refuses. A seccomp filter on a separate thread replaces the kernel's
// answers. /proc is the file system that refuses O_DIRECT.
#include "base/error.h"
#include "io/seccomp.h"
#include "io/test_file.h"

#include <gmock/gmock.h>

#include <sys/resource.h>

#include <optional>

namespace larder::test {

namespace {

using testing::AllOf;
using testing::HasSubstr;

void expect_reads(Reader &reader, const TestFile &file) {
    const Memory memory(64 * KiB);
    EXPECT_EQ(read_one(reader, {0, 0, memory.at(0), 64 * KiB, 64 * KiB, 1}).error, 0);
    EXPECT_TRUE(SimReader::matches(0, 0, memory.at(0), 64 * KiB));
    EXPECT_EQ(file.bytes(), 64 * KiB);
}

} // namespace

TEST(OpenReader, FallsBackToThreadsAndSaysWhyWhenIoUringIsRefused) {
    const TestFile file(64 * KiB);
    for (const uint32_t error : {ENOSYS, EPERM, ENOMEM}) {
        const bool ran = under_refusal(SYS_io_uring_setup, error, 0, [&] {
            const std::unique_ptr<Reader> reader = open_reader({file.path()}, {});
            EXPECT_EQ(reader->info().backend, "pread");
            EXPECT_THAT(reader->info().notice, AllOf(HasSubstr("io_uring"), HasSubstr("threads")));
            expect_reads(*reader, file);
        });
        if (!ran) {
            GTEST_SKIP() << "seccomp filters are not to be had here";
        }
    }
}

TEST(OpenReader, RefusesWhenIoUringIsRequiredAndRefused) {
    const TestFile file(64 * KiB);
    const bool ran = under_refusal(SYS_io_uring_setup, EPERM, 0, [&] {
        try {
            open_reader({file.path()}, {IoBackend::uring, DirectIo::automatic, 8});
            ADD_FAILURE() << "opened";
        } catch (const Error &error) {
            EXPECT_EQ(error.kind(), ErrorKind::io);
            EXPECT_THAT(error.what(), HasSubstr("io_uring"));
            EXPECT_THAT(error.remedy(), HasSubstr("io_uring_disabled"));
        }
    });
    if (!ran) {
        GTEST_SKIP() << "seccomp filters are not to be had here";
    }
}

TEST(OpenReader, ReadsBufferedAndSaysWhyWhenOpenRefusesDirectIo) {
    const TestFile file(64 * KiB);
    const bool ran = under_refusal(SYS_openat, EINVAL, O_DIRECT, [&] {
        const std::unique_ptr<Reader> reader = open_reader({file.path()}, {});
        EXPECT_FALSE(reader->info().direct_io);
        EXPECT_THAT(reader->info().notice, AllOf(HasSubstr(file.path()), HasSubstr("refuses direct I/O")));
        expect_reads(*reader, file);
    });
    if (!ran) {
        GTEST_SKIP() << "seccomp filters are not to be had here";
    }
}

TEST(OpenReader, ReadsBufferedAndSaysWhyWhenTheFirstReadRefusesDirectIo) {
    const TestFile file(64 * KiB);
    const bool ran = under_refusal(SYS_pread64, EINVAL, 0, [&] {
        std::unique_ptr<Reader> reader;
        try {
            reader = open_reader({file.path()}, {IoBackend::uring, DirectIo::automatic, 8});
        } catch (const Error &) {
            return; // no io_uring here, and the test disables pread
        }
        EXPECT_FALSE(reader->info().direct_io);
        EXPECT_THAT(reader->info().notice, HasSubstr("refuses direct I/O"));
        expect_reads(*reader, file);
    });
    if (!ran) {
        GTEST_SKIP() << "seccomp filters are not to be had here";
    }
}

TEST(OpenReader, NamesBothFallbacksInOneLine) {
    const bool ran = under_refusal(SYS_io_uring_setup, ENOSYS, 0, [&] {
        const std::unique_ptr<Reader> reader = open_reader({"/proc/version"}, {});
        EXPECT_THAT(reader->info().notice, AllOf(HasSubstr("refuses direct I/O"), HasSubstr("refuses io_uring")));
        EXPECT_THAT(reader->info().notice, testing::Not(HasSubstr("\n")));
    });
    if (!ran) {
        GTEST_SKIP() << "seccomp filters are not to be had here";
    }
}

TEST(OpenReader, RefusesWhenDirectIoIsRequiredAndRefused) {
    try {
        open_reader({"/proc/version"}, {IoBackend::automatic, DirectIo::required, 8});
        FAIL() << "opened";
    } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::io);
        EXPECT_THAT(error.what(), AllOf(HasSubstr("/proc/version"), HasSubstr("O_DIRECT")));
        EXPECT_THAT(error.remedy(), HasSubstr("ext4"));
    }
}

TEST(OpenReader, NamesTheLimitOfOpenFiles) {
    const TestFile file(4 * KiB);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{0, before.rlim_max};
    for (const DirectIo direct : {DirectIo::automatic, DirectIo::off}) {
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
        std::optional<Error> refusal;
        try {
            open_reader({file.path()}, {.direct = direct});
        } catch (const Error &error) {
            refusal = error;
        }
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
        ASSERT_TRUE(refusal);
        EXPECT_THAT(refusal->what(), AllOf(HasSubstr("cannot open " + file.path()), HasSubstr("Too many open files")));
        EXPECT_THAT(refusal->remedy(), HasSubstr("ulimit -n"));
    }
}

TEST(OpenReader, ReportsAFileSystemThatReturnsNothingThoughTheFileGoesOn) {
    const TestFile file(64 * KiB);
    const bool ran = under_refusal(SYS_pread64, 0, 0, [&] {
        const std::unique_ptr<Reader> reader = open_reader({file.path()}, {IoBackend::pread, DirectIo::off, 8});
        const Memory memory(4 * KiB);
        EXPECT_EQ(read_one(*reader, {0, 0, memory.at(0), 4 * KiB, 4 * KiB, 5}).error, EIO);
        EXPECT_EQ(read_one(*reader, {0, 64 * KiB, memory.at(0), 4 * KiB, 4 * KiB, 6}).error, ENODATA);
    });
    if (!ran) {
        GTEST_SKIP() << "seccomp filters are not to be had here";
    }
}

TEST(OpenReader, ReportsAReadErrorAsTheResultsError) {
    const TestFile file(64 * KiB);
    const bool ran = under_refusal(SYS_pread64, EIO, 0, [&] {
        const std::unique_ptr<Reader> reader = open_reader({file.path()}, {IoBackend::pread, DirectIo::off, 8});
        const Memory memory(4 * KiB);
        const ReadResult result = read_one(*reader, {0, 0, memory.at(0), 4 * KiB, 4 * KiB, 5});
        EXPECT_EQ(result.error, EIO);
        EXPECT_EQ(result.tag, 5U);
        EXPECT_EQ(reader->in_flight(), 0U);
    });
    if (!ran) {
        GTEST_SKIP() << "seccomp filters are not to be had here";
    }
}

} // namespace larder::test

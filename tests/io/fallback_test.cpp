// What open_reader does where kernel or file system refuse. A seccomp filter on a thread of its own plays the kernel
// that refuses; the file system that refuses O_DIRECT is /proc.
#include "base/error.h"
#include "io/test_file.h"

#include <gmock/gmock.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cstddef>
#include <functional>
#include <thread>

namespace larder::test {

namespace {

using testing::AllOf;
using testing::HasSubstr;

// Makes the system call fail for this thread and those it starts; if `flag` is not 0, only where the third argument has
// it. False where filters are not to be had.
bool refuse(uint32_t call, uint32_t error, uint32_t flag = 0) {
    const auto argument = static_cast<uint32_t>(offsetof(seccomp_data, args) + 2 * sizeof(uint64_t));
    std::array<sock_filter, 6> filter = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flag, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    if (flag == 0) {
        filter[3] = BPF_JUMP(BPF_JMP | BPF_JA, 0, 0, 0);
    }
    const sock_fprog program = {filter.size(), filter.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Runs `body` on a thread for which `call` fails. False where that cannot be had.
bool under_refusal(uint32_t call, uint32_t error, uint32_t flag, const std::function<void()> &body) {
    bool refused = false;
    std::thread([&] {
        refused = refuse(call, error, flag);
        if (refused) {
            body();
        }
    }).join();
    return refused;
}

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
            return; // no io_uring here, and pread is what this test takes away
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

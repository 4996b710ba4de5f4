// After it is opened, a reader never allocates: not for requests, results, failures, short reads, waits or wakes.
#include "base/error.h"
#include "io/test_file.h"
#include "support/allocations.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <span>
#include <tuple>

namespace larder::test {
namespace {

class ReaderAllocation : public testing::TestWithParam<std::tuple<IoBackend, DirectIo>> {};

TEST_P(ReaderAllocation, HappensOnlyWhenItIsOpened) {
    constexpr uint64_t window = 8 * KiB;
    constexpr uint64_t n = 64;
    const TestFile file(n * window);
    const Memory memory(n * window);
    void *forbidden = ::mmap(nullptr, window, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::array<ReadRequest, n> requests{};
    std::array<ReadResult, 7> results{};
    std::unique_ptr<Reader> reader;
    const auto [backend, direct] = GetParam();
    try {
        reader = open_reader({file.path()}, {backend, direct, 3, n});
    } catch (const Error &) {
        GTEST_SKIP() << "this mode is not to be had here";
    }

    uint64_t n_failed = 0;
    uint64_t n_done = 0;
    const auto poll = [&](std::chrono::milliseconds at_most) {
        const size_t count = reader->poll(results, at_most);
        for (const ReadResult &result : std::span(results).first(count)) {
            n_failed += result.error != 0 ? 1 : 0;
        }
        n_done += count;
    };
    const uint64_t before = allocations;
    for (int round = 0; round < 5; round++) {
        for (uint64_t i = 0; i < n; i++) {
            requests.at(i) = {0, i * window, memory.at(i * window), window, window, i};
        }
        requests[1].into = static_cast<char *>(forbidden); // fails with EFAULT
        requests[2].offset = n * window;                   // fails with ENODATA
        reader->submit(std::span(requests).first(n / 2));
        poll(at_once);
        reader->wake();
        poll(for_ever);
        reader->submit(std::span(requests).last(n / 2));
        while (reader->in_flight() > 0) {
            poll(std::chrono::milliseconds(1));
        }
        (void)reader->identity(0);
    }
    const uint64_t after = allocations;
    EXPECT_EQ(after, before);
    EXPECT_EQ(n_done, 5 * n);
    EXPECT_EQ(n_failed, 10U);
    ::munmap(forbidden, window);
    EXPECT_EQ(before > 0, counts_allocations);
}

INSTANTIATE_TEST_SUITE_P(Modes, ReaderAllocation,
                         testing::Combine(testing::Values(IoBackend::uring, IoBackend::pread),
                                          testing::Values(DirectIo::required, DirectIo::off)),
                         [](const auto &of) {
                             return std::string(std::get<0>(of.param) == IoBackend::uring ? "Uring" : "Pread") +
                                    (std::get<1>(of.param) == DirectIo::off ? "Buffered" : "Direct");
                         });

} // namespace
} // namespace larder::test

// The whole measurement on real files and memory: its form, and the detection of the page cache.
#include "lab/probe/probe.h"

#include "base/error.h"
#include "io/test_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace larder::test {
namespace {

using testing::HasSubstr;

DiskProbe wanted_of(const TestFile &file) {
    DiskProbe wanted;
    wanted.paths = {file.path()};
    wanted.request_bytes = {64 * KiB, 100'000}; // the second size is widened to whole disk blocks
    wanted.depths = {1, 4};
    wanted.bytes_per_sample = MiB;
    return wanted;
}

TEST(Probe, TakesASampleOfEachSizeDepthAndOrder) {
    const TestFile file(4 * MiB);
    const DiskReport report = probe_disk(wanted_of(file));
    std::set<std::tuple<uint64_t, uint32_t, bool>> kinds;
    for (const DiskSample &sample : report.samples) {
        kinds.insert({sample.request_bytes, sample.depth, sample.random});
        EXPECT_EQ(sample.n_request, MiB / sample.request_bytes);
        EXPECT_EQ(sample.bytes_read, sample.n_request * sample.request_bytes);
        EXPECT_GT(sample.bytes_per_second, 0);
    }
    EXPECT_EQ(kinds.size(), 8U);
    EXPECT_TRUE(kinds.contains({102'400, 4, true}));
    EXPECT_FALSE(report.reader.backend.empty());
    const DiskSample *best = report.best(100'000, true);
    ASSERT_NE(best, nullptr);
    EXPECT_EQ(best->request_bytes, 102'400U);
    EXPECT_TRUE(best->random);
    EXPECT_EQ(report.best(8192, true), nullptr);
}

TEST(Probe, ReadsNoMoreThanThereIs) {
    const TestFile file(300 * KiB);
    DiskProbe wanted = wanted_of(file);
    wanted.depths = {16};
    const DiskReport report = probe_disk(wanted);
    EXPECT_EQ(report.samples[0].n_request, 4U);
    EXPECT_EQ(report.samples[2].n_request, 3U);
}

TEST(Probe, DropsWhatIsCachedBeforeItReadsThroughThePageCache) {
    const TestFile file(4 * MiB);
    DiskProbe wanted = wanted_of(file);
    wanted.reader.direct = DirectIo::off;
    std::vector<char> content(file.bytes());
    const UniqueFd fd(::open(file.path().c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::pread(fd.get(), content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
    ASSERT_EQ(file.cached_bytes(), file.bytes());
    for (const DiskSample &sample : probe_disk(wanted).samples) {
        EXPECT_EQ(sample.cached_bytes, 0U);
    }
}

// A mapped page cannot be dropped, so it is counted.
TEST(Probe, CountsWhatStaysInThePageCache) {
    const TestFile file(4 * MiB);
    DiskProbe wanted = wanted_of(file);
    wanted.request_bytes = {64 * KiB};
    wanted.bytes_per_sample = file.bytes();
    wanted.reader.direct = DirectIo::off;
    const UniqueFd fd(::open(file.path().c_str(), O_RDONLY | O_CLOEXEC));
    void *mapping = ::mmap(nullptr, MiB, PROT_READ, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
    ASSERT_NE(mapping, MAP_FAILED);
    ASSERT_EQ(::mlock(mapping, MiB), 0);
    for (const DiskSample &sample : probe_disk(wanted).samples) {
        EXPECT_EQ(sample.bytes_read, file.bytes());
        EXPECT_GE(sample.cached_bytes.value_or(0), MiB);
        EXPECT_LT(sample.cached_bytes.value_or(0), 2 * MiB);
    }
    ::munmap(mapping, MiB);
}

TEST(Probe, RefusesWhatCannotBeMeasured) {
    const TestFile file(300 * KiB);
    const auto message_of = [](const DiskProbe &wanted) -> std::string {
        try {
            probe_disk(wanted);
        } catch (const Error &error) {
            return error.what();
        }
        return "no error";
    };
    DiskProbe wanted = wanted_of(file);
    wanted.request_bytes = {MiB};
    EXPECT_THAT(message_of(wanted), HasSubstr("no read of 1 MiB fits into"));
    wanted = wanted_of(file);
    wanted.depths = {0};
    EXPECT_THAT(message_of(wanted), HasSubstr("a depth of 0"));
    wanted = wanted_of(file);
    wanted.paths = {"/nowhere/x.bin"};
    EXPECT_THAT(message_of(wanted), HasSubstr("/nowhere/x.bin"));
}

TEST(Probe, MeasuresMemoryForDoublingNumbersOfThreadsUpToTheLast) {
    const std::vector<MemorySample> samples = probe_memory(3, 8 * MiB, 0.01);
    ASSERT_EQ(samples.size(), 3U);
    EXPECT_EQ(samples[0].threads, 1U);
    EXPECT_EQ(samples[1].threads, 2U);
    EXPECT_EQ(samples[2].threads, 3U);
    for (const MemorySample &sample : samples) {
        EXPECT_GT(sample.bytes_per_second, 1e6);
    }
    EXPECT_EQ(probe_memory(1, 8 * MiB, 0.01).size(), 1U);
}

} // namespace
} // namespace larder::test

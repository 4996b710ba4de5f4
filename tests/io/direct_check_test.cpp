// Whether direct reads bypass the page cache: on simulated file systems and on real files.
#include "io/direct_check.h"

#include "base/bytes.h"
#include "io/test_file.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace larder::test {

namespace {

// A file with blocks that are compressed, cached, or held in the page cache by another process.
struct FakeFile {
    std::set<uint64_t> compressed = {}; // a direct read of these blocks fills the page cache
    std::set<uint64_t> cached = {};
    std::set<uint64_t> mapped = {}; // these blocks cannot be dropped
    std::set<uint64_t> dirty = {};  // these cannot be dropped until they are read
    bool tells = true;
    int others_reads = 0; // number of times that another process reads the block after a direct read
    std::map<uint64_t, int> reads = {};

    BlockAccess access() {
        return {.cached = [this](uint64_t offset) -> std::optional<bool> {
                    return tells ? std::optional(cached.contains(offset)) : std::nullopt;
                },
                .drop =
                    [this](uint64_t offset) {
                        if (!mapped.contains(offset) && !dirty.contains(offset)) {
                            cached.erase(offset);
                        }
                    },
                .read =
                    [this](uint64_t offset) {
                        reads[offset]++;
                        dirty.erase(offset);
                        if (compressed.contains(offset) || others_reads-- > 0) {
                            cached.insert(offset);
                        }
                    }};
    }
    CacheUse look(uint64_t n_block) { return cache_use_of_direct_reads(access(), n_block * direct_io_alignment); }
};

std::set<uint64_t> blocks(uint64_t n_block, uint64_t first = 0) {
    std::set<uint64_t> all;
    for (uint64_t i = first; i < n_block; i++) {
        all.insert(i * direct_io_alignment);
    }
    return all;
}

} // namespace

TEST(DirectCheck, FindsReadsThatBypassTheCache) {
    for (const uint64_t n_block : {1, 2, 3, 100}) {
        FakeFile file;
        EXPECT_EQ(file.look(n_block), CacheUse::bypassed);
        EXPECT_LE(file.reads.size(), 5U) << "a few blocks only";
        EXPECT_TRUE(file.reads.contains(0));
        EXPECT_TRUE(file.reads.contains((n_block - 1) * direct_io_alignment));
        EXPECT_TRUE(file.cached.empty());
    }
    FakeFile shorter_than_a_block;
    EXPECT_EQ(cache_use_of_direct_reads(shorter_than_a_block.access(), 100), CacheUse::bypassed);
}

TEST(DirectCheck, FindsReadsThatFillTheCacheAndLeavesNothing) {
    FakeFile file{.compressed = blocks(100)};
    EXPECT_EQ(file.look(100), CacheUse::filled);
    EXPECT_TRUE(file.cached.empty());
}

TEST(DirectCheck, FindsAFileOfWhichAPartIsCompressed) {
    FakeFile beginning{.compressed = {0}};
    EXPECT_EQ(beginning.look(100), CacheUse::filled);
    FakeFile end{.compressed = blocks(100, 50)};
    EXPECT_EQ(end.look(100), CacheUse::filled);
}

TEST(DirectCheck, IsNotMisledByBlocksThatWereCachedBefore) {
    FakeFile file{.cached = blocks(100)};
    EXPECT_EQ(file.look(100), CacheUse::bypassed);
    FakeFile written{.cached = blocks(100), .dirty = blocks(100)};
    EXPECT_EQ(written.look(100), CacheUse::bypassed);
    FakeFile compressed{.compressed = blocks(100), .cached = blocks(100), .dirty = blocks(100)};
    EXPECT_EQ(compressed.look(100), CacheUse::filled);
}

TEST(DirectCheck, IsNotMisledByAnotherProcessThatReadsTheSameBlock) {
    for (const int times : {1, 2}) {
        FakeFile file{.others_reads = times};
        EXPECT_EQ(file.look(100), CacheUse::bypassed);
    }
}

TEST(DirectCheck, DoesNotDecideWhatItCannotSee) {
    FakeFile mapped{.cached = blocks(100), .mapped = blocks(100)};
    EXPECT_EQ(mapped.look(100), CacheUse::unknown);
    FakeFile untold{.compressed = blocks(100), .tells = false};
    EXPECT_EQ(untold.look(100), CacheUse::unknown);
    EXPECT_TRUE(untold.reads.empty());
    FakeFile half_mapped{.cached = blocks(100), .mapped = blocks(50)};
    EXPECT_EQ(half_mapped.look(100), CacheUse::bypassed);
}

// A model that was just downloaded or copied is completely in the page cache, and another process may map it.
TEST(DirectCheck, LeavesDirectReadsOfACachedFileDirect) {
    const TestFile file(4 * MiB);
    if (file.in_memory() || !file.takes_direct_reads()) {
        GTEST_SKIP() << "no direct I/O here";
    }
    const UniqueFd fd(::open(file.path().c_str(), O_RDONLY | O_CLOEXEC));
    std::vector<char> content(file.bytes());
    ASSERT_EQ(::pread(fd.get(), content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
    ASSERT_EQ(file.cached_bytes(), file.bytes());
    for (const bool mapped : {true, false}) {
        void *mapping = MAP_FAILED;
        if (mapped) {
            mapping = ::mmap(nullptr, file.bytes(), PROT_READ, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
            ASSERT_NE(mapping, MAP_FAILED);
        }
        const std::unique_ptr<Reader> reader = open_reader({file.path()}, {.direct = DirectIo::required});
        EXPECT_TRUE(reader->info().direct_io);
        EXPECT_EQ(reader->info().notice, "");
        if (mapped) {
            ::munmap(mapping, file.bytes());
        }
    }
}

} // namespace larder::test

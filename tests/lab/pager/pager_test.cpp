// What is dropped from a mapping, and when, and what is never dropped.
#include "lab/pager/pager.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "lab/pager/file_mapping.h"
#include "lab/pager/rss_samples.h"
#include "machine/process_memory.h"
#include "support/scratch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace larder::test {
namespace {

constexpr uint32_t n_expert = 8;
constexpr uint64_t slice_bytes = 256 * KiB + 100; // only the first slice begins at a page boundary
constexpr uint64_t first_offset = 5000;

char byte_at(uint64_t offset) { return static_cast<char>(offset * 2654435761U >> 13); }

// A file with two layers of two expert tensors each, clean in the page cache.
class Pager : public testing::Test {
  protected:
    Pager() {
        layout_.files = {scratch_ / "experts"};
        uint64_t offset = first_offset;
        for (uint32_t moe_layer = 0; moe_layer < 2; moe_layer++) {
            for (const Projection projection : {Projection::up, Projection::down}) {
                add(moe_layer, projection, offset);
                offset += n_expert * slice_bytes;
            }
        }
        std::vector<char> bytes(offset);
        for (uint64_t i = 0; i < offset; i++) {
            bytes[i] = byte_at(i);
        }
        fd_ = UniqueFd(::open(layout_.files[0].c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        EXPECT_EQ(::write(fd_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
        EXPECT_EQ(::fsync(fd_.get()), 0); // dirty pages could not be dropped from the page cache
        layout_.file_bytes = {offset};
    }

    void add(uint32_t moe_layer, Projection projection, uint64_t offset) {
        TensorInfo info;
        info.extent = {0, offset, n_expert * slice_bytes};
        ExpertTensor tensor;
        tensor.tensor = static_cast<uint32_t>(layout_.tensors.size());
        tensor.layer = moe_layer;
        tensor.moe_layer = moe_layer;
        tensor.projection = projection;
        tensor.n_expert = n_expert;
        tensor.n_expert_used = 2;
        tensor.slice_bytes = slice_bytes;
        layout_.tensors.push_back(info);
        layout_.expert_tensors.push_back(tensor);
    }

    // A pager whose tensors are read from its own mapping.
    ExpertPager &open(const PagerOptions &options) {
        pager_.emplace(layout_, options);
        addresses_.clear();
        for (const ExpertTensor &tensor : layout_.expert_tensors) {
            addresses_.push_back(const_cast<void *>(pager_->address_of(tensor)));
        }
        for (size_t i = 0; i < addresses_.size(); i++) {
            pager_->bind(layout_.expert_tensors[i], &addresses_[i]);
        }
        return *pager_;
    }

    // One token through both layers, with these experts.
    void token(const std::vector<int32_t> &experts) {
        for (const uint32_t moe_layer : {0U, 1U}) {
            pager_->routed(moe_layer, static_cast<uint32_t>(experts.size()), experts);
        }
        pager_->end_evaluation(1);
    }

    [[nodiscard]] bool file_is_what_it_was() const {
        const auto *file = static_cast<const char *>(addresses_.front()) - first_offset;
        for (uint64_t i = 0; i < layout_.file_bytes[0]; i++) {
            if (file[i] != byte_at(i)) {
                return false;
            }
        }
        return true;
    }

    [[nodiscard]] uint64_t cached_bytes() const {
        void *mapping = ::mmap(nullptr, layout_.file_bytes[0], PROT_READ, MAP_SHARED, fd_.get(), 0);
        const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
        std::vector<unsigned char> pages(align_up(layout_.file_bytes[0], page_bytes) / page_bytes);
        EXPECT_EQ(::mincore(mapping, layout_.file_bytes[0], pages.data()), 0);
        ::munmap(mapping, layout_.file_bytes[0]);
        return page_bytes * static_cast<uint64_t>(std::ranges::count_if(pages, [](auto page) { return page & 1; }));
    }

    Scratch scratch_;
    ModelLayout layout_;
    UniqueFd fd_;
    std::vector<void *> addresses_;
    std::optional<ExpertPager> pager_;
};

TEST_F(Pager, DropsAnExpertWhenNoneOfTheHotTokensUsedIt) {
    ExpertPager &pager = open({3, PageEvict::both});
    token({0, 1});
    token({2, 1});
    token({2, 3});
    EXPECT_EQ(pager.stats().experts_dropped, 0U) << "0 was used by one of the last three tokens";
    token({2, 3});
    EXPECT_EQ(pager.stats().experts_dropped, 2U) << "0 of either block";
    EXPECT_EQ(pager.stats().slices_dropped, 4U);
    token({2, 3});
    EXPECT_EQ(pager.stats().experts_dropped, 4U) << "and 1";
    for (int i = 0; i < 10; i++) {
        token({2, 3});
    }
    const PagerStats stats = pager.stats();
    EXPECT_EQ(stats.experts_dropped, 4U) << "what is gone is not dropped again";
    EXPECT_EQ(stats.sweeps, 15U);
    EXPECT_LE(stats.bytes_dropped, 8 * slice_bytes);
    EXPECT_GE(stats.bytes_dropped, 8 * (slice_bytes - 2 * 4096)) << "whole pages inside of the slices";
}

TEST_F(Pager, SweepsAfterAnEvaluationOfManyTokensByTheirPlaces) {
    ExpertPager &pager = open({2, PageEvict::both});
    const std::vector<int32_t> four_tokens = {0, 1, 2, 3, 4, 5, 6, 7};
    pager.routed(0, 2, four_tokens);
    // In a prefill, the last layer is evaluated only for the last tokens.
    pager.routed(1, 2, std::span(four_tokens).last(2));
    pager.end_evaluation(4);
    EXPECT_EQ(pager.stats().experts_dropped, 4U) << "those of the first two tokens, in the first block";
    EXPECT_EQ(pager.stats().expert_misses, 10U);
}

TEST_F(Pager, CountsHitsMissesAndWhatHasToBeReadAgain) {
    ExpertPager &pager = open({1, PageEvict::both});
    const std::vector<int32_t> twice = {0, 1, 1, -1}; // an expert counts once per evaluation; -1 does not count
    pager.routed(0, 2, twice);
    pager.end_evaluation(2);
    EXPECT_EQ(pager.stats().expert_misses, 2U);
    EXPECT_EQ(pager.stats().expert_hits, 0U);
    EXPECT_EQ(pager.stats().experts_dropped, 1U) << "0";
    const std::vector<int32_t> once = {0, 1};
    pager.routed(0, 2, once);
    pager.end_evaluation(1);
    const PagerStats stats = pager.stats();
    EXPECT_EQ(stats.expert_misses, 3U);
    EXPECT_EQ(stats.expert_hits, 1U);
    EXPECT_EQ(stats.bytes_reread, 2 * slice_bytes) << "both slices of 0";
    EXPECT_EQ(stats.mapped_bytes, layout_.file_bytes[0]);
}

TEST_F(Pager, EveryWayToEvictLeavesTheBytesAsTheyAre) {
    for (const PageEvict evict : {PageEvict::both, PageEvict::madvise, PageEvict::fadvise, PageEvict::none}) {
        ExpertPager &pager = open({1, evict});
        token({0, 1});
        token({2, 3});
        token({4, 5});
        EXPECT_EQ(pager.stats().experts_dropped, evict == PageEvict::none ? 0U : 8U) << to_string(evict);
        EXPECT_EQ(pager.stats().bytes_dropped > 0, evict != PageEvict::none);
        EXPECT_TRUE(file_is_what_it_was()) << to_string(evict);
    }
}

// The effect of each of the two calls. The kernel may keep some pages, so the test checks for half of them.
TEST_F(Pager, MadviseEmptiesTheProcessAndFadviseThePageCache) {
    ASSERT_EQ(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    if (cached_bytes() > layout_.file_bytes[0] / 2) {
        GTEST_SKIP() << "this file system keeps its pages in memory";
    }
    struct Left {
        uint64_t mapped;
        uint64_t cached;
    };
    std::map<PageEvict, Left> left;
    for (const PageEvict evict : {PageEvict::both, PageEvict::madvise, PageEvict::fadvise, PageEvict::none}) {
        open({1, evict});
        EXPECT_TRUE(file_is_what_it_was()); // reads the whole file
        const uint64_t rss_before = process_memory().rss_bytes;
        std::vector<int32_t> all(n_expert);
        std::iota(all.begin(), all.end(), 0);
        token(all);
        token({0});
        token({0});
        const uint64_t rss_after = process_memory().rss_bytes;
        const uint64_t gone = rss_before - std::min(rss_before, rss_after);
        left[evict] = {layout_.file_bytes[0] - std::min(layout_.file_bytes[0], gone), cached_bytes()};
        pager_.reset();
    }
    const uint64_t half = layout_.file_bytes[0] / 2;
    EXPECT_LT(left[PageEvict::both].mapped, half);
    EXPECT_LT(left[PageEvict::both].cached, half);
    EXPECT_LT(left[PageEvict::madvise].mapped, half);
    EXPECT_GT(left[PageEvict::madvise].cached, half);
    EXPECT_GT(left[PageEvict::fadvise].cached, half) << "the kernel keeps what is mapped";
    EXPECT_GT(left[PageEvict::none].cached, half);
}

// If it were dropped, an anonymous copy would become zeros.
TEST_F(Pager, RefusesToDropWeightsThatAreNotInTheMapping) {
    for (const PageEvict evict : {PageEvict::both, PageEvict::madvise, PageEvict::fadvise}) {
        ExpertPager &pager = open({1, evict});
        std::vector<char> copy(n_expert * slice_bytes, 'x');
        addresses_[1] = copy.data(); // the address that the engine reads from
        token({0, 1});
        const auto two_tokens = [&] {
            token({2, 3});
            token({2, 3});
        };
        try {
            two_tokens();
            ADD_FAILURE() << "no error with " << to_string(evict);
        } catch (const Error &error) {
            EXPECT_EQ(error.kind(), ErrorKind::engine);
            EXPECT_THAT(error.what(), testing::HasSubstr("not read from the mapping"));
            EXPECT_THAT(error.what(), testing::HasSubstr("--kernels plain"));
        }
        EXPECT_TRUE(std::ranges::all_of(copy, [](char byte) { return byte == 'x'; }));
        addresses_[1] = const_cast<void *>(pager.address_of(layout_.expert_tensors[1]));
    }
}

TEST_F(Pager, RefusesAPartOfTheMappingThatIsAnothers) {
    const FileMapping mapping(layout_.files);
    const Extent extent = layout_.slice_extent(layout_.expert_tensors[0], 1);
    EXPECT_GT(mapping.drop(extent, mapping.address_of(extent), PageEvict::both), 0U);
    EXPECT_THROW(mapping.drop(extent, mapping.address_of(extent) + 4096, PageEvict::both), Error);
    EXPECT_THROW(mapping.drop(extent, nullptr, PageEvict::both), Error);
}

TEST_F(Pager, LeavesAloneWhatIsNotBound) {
    pager_.emplace(layout_, PagerOptions{1, PageEvict::both});
    token({0, 1});
    token({2, 3});
    EXPECT_EQ(pager_->stats().slices_dropped, 0U);
    EXPECT_EQ(pager_->stats().bytes_dropped, 0U);
}

TEST_F(Pager, SaysWhichFileItCannotMap) {
    layout_.files = {scratch_ / "absent"};
    try {
        open({});
        ADD_FAILURE() << "no error";
    } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::io);
        EXPECT_THAT(error.what(), testing::HasSubstr("absent"));
    }
}

TEST_F(Pager, SamplesResidentMemoryInABoundedList) {
    ExpertPager &pager = open({});
    constexpr uint64_t n_evaluation = 5000;
    for (uint64_t i = 0; i < n_evaluation; i++) {
        pager.end_evaluation(1);
    }
    const std::vector<RssSample> samples = pager.stats().rss;
    ASSERT_GT(samples.size(), RssSamples::n_sample_max / 2);
    ASSERT_LE(samples.size(), RssSamples::n_sample_max);
    EXPECT_EQ(samples.front().n_token, 1U);
    const uint64_t step = samples[1].n_token - samples[0].n_token;
    for (size_t i = 1; i < samples.size(); i++) {
        EXPECT_EQ(samples[i].n_token - samples[i - 1].n_token, step);
        EXPECT_GT(samples[i].rss_bytes, 0U);
    }
    EXPECT_GT(samples.back().n_token + step, n_evaluation);
}

} // namespace
} // namespace larder::test

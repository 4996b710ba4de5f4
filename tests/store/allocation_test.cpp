// The store allocates memory only in its constructor.
#include "io/test_file.h"
#include "store_fixture.h"
#include "support/allocations.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <numeric>

namespace larder::test {
namespace {

// Completes each request at the next poll. The bytes do not matter here.
class InstantReader : public Reader {
  public:
    InstantReader() { pending_.reserve(1024); }
    void submit(std::span<const ReadRequest> requests) override {
        pending_.insert(pending_.end(), requests.begin(), requests.end());
    }
    size_t poll(std::span<ReadResult> results, std::chrono::milliseconds) override {
        const size_t count = std::min(results.size(), pending_.size());
        for (size_t i = 0; i < count; ++i) {
            results[i] = {pending_.back().tag, 0, pending_.back().bytes};
            pending_.pop_back();
        }
        return count;
    }
    void wake() noexcept override {}
    [[nodiscard]] size_t in_flight() const override { return pending_.size(); }
    [[nodiscard]] const ReaderInfo &info() const override { return info_; }
    [[nodiscard]] FileIdentity identity(uint32_t) const override { return {}; }

  private:
    std::vector<ReadRequest> pending_;
    ReaderInfo info_;
};

// Runs all experts of all layers through a store with a few slots, first in small batches. Returns the number of
// allocations meanwhile, on all threads.
uint64_t allocations_of(const ModelLayout &layout, Reader &reader) {
    constexpr uint32_t experts = 32;
    ExpertStore store(layout, std::vector<uint64_t>{12, 7}, reader);
    std::vector<SliceIndex> demanded;
    std::vector<SliceIndex> following;
    demanded.reserve(experts);
    following.reserve(2 * size_t{experts});
    const uint64_t before = allocations;
    for (uint32_t round = 0; round < 3; ++round) {
        for (size_t i = 0; i < layout.expert_tensors.size(); i += 3) {
            const uint32_t count = round == 0 ? 4 : experts;
            demanded.resize(count);
            following.resize(2 * size_t{count});
            std::iota(demanded.begin(), demanded.end(), layout.expert_tensors[i].first_slice);
            std::iota(following.begin(), following.begin() + count, layout.expert_tensors[i + 1].first_slice);
            std::iota(following.begin() + count, following.end(), layout.expert_tensors[i + 2].first_slice);
            store.begin(demanded, following, true);
            store.start_reads();
            for (uint32_t position = 0; store.wait(position); ++position) {
            }
            store.end();
        }
    }
    const uint64_t meanwhile = allocations - before;
    EXPECT_GT(store.stats().evictions, 0U);
    EXPECT_EQ(before > 0, counts_allocations);
    return meanwhile;
}

TEST(Allocation, HappensOnlyInTheConstructor) {
    const ModelLayout layout = make_layout(4, 32, 4);
    InstantReader reader;
    EXPECT_EQ(allocations_of(layout, reader), 0U);
}

// Also if reads fail: std::bad_alloc on a compute thread would end the process.
TEST(Allocation, DoesNotHappenWithTheRealReadersNeitherWhereReadsFail) {
    for (const IoBackend backend : {IoBackend::uring, IoBackend::pread}) {
        ModelLayout layout = make_layout(4, 32, 4);
        std::vector<std::unique_ptr<TestFile>> files;
        for (uint32_t file = 0; file < layout.files.size(); ++file) {
            files.push_back(std::make_unique<TestFile>(layout.file_bytes[file], file));
            layout.files[file] = files.back()->path();
        }
        const std::unique_ptr<Reader> reader = open_reader(layout.files, {.backend = backend, .depth = 4});
        EXPECT_EQ(allocations_of(layout, *reader), 0U);
        std::filesystem::resize_file(layout.files.back(), layout.file_bytes.back() / 2);
        EXPECT_EQ(allocations_of(layout, *reader), 0U);
    }
}

} // namespace
} // namespace larder::test

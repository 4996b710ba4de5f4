// The store with the real readers and real files, for errors in memory, alignment and threads that a simulated disk
// does not show.
#include "io/test_file.h"
#include "store_fixture.h"

#include <thread>

namespace larder::test {
namespace {

class RealFile : public testing::TestWithParam<IoBackend> {
  protected:
    static constexpr uint32_t experts = 24;
    static constexpr uint32_t layers = 4;

    RealFile() : layout_(make_layout(layers, experts, 2)) {
        for (uint32_t file = 0; file < layout_.files.size(); ++file) {
            files_.push_back(std::make_unique<TestFile>(layout_.file_bytes[file], file));
            layout_.files[file] = files_.back()->path();
        }
        reader_ = open_reader(layout_.files, {.backend = GetParam(), .depth = 4});
    }

    // All experts of the tensor on three threads. Returns the number of slices with the right bytes.
    uint32_t run(ExpertStore &store, const ExpertTensor &tensor, uint32_t count) {
        std::vector<SliceIndex> demanded;
        for (uint32_t expert = 0; expert < count; ++expert) {
            demanded.push_back(tensor.first_slice + expert);
        }
        std::atomic<uint32_t> next{0};
        std::atomic<uint32_t> right{0};
        store.begin(demanded, {}, true);
        store.start_reads();
        const auto work = [&] {
            for (;;) {
                const uint32_t position = next++;
                const Pin ready = store.wait(position);
                if (!ready) {
                    return;
                }
                const Extent extent = layout_.slice_extent(tensor, ready->slice - tensor.first_slice);
                const bool read = ready->data != nullptr;
                right += read && SimReader::matches(extent.file, extent.offset, ready->data, extent.bytes) ? 1 : 0;
            }
        };
        std::thread second(work);
        std::thread third(work);
        work();
        second.join();
        third.join();
        store.end();
        return right;
    }

    ModelLayout layout_;
    std::vector<std::unique_ptr<TestFile>> files_;
    std::unique_ptr<Reader> reader_;
};

TEST_P(RealFile, StreamsThroughFewSlotsAndStaysInMany) {
    for (const uint64_t slots : {1, 5, 400}) {
        ExpertStore store(layout_, std::vector<uint64_t>{slots, slots}, *reader_);
        for (int round = 0; round < 2; ++round) {
            for (const ExpertTensor &tensor : layout_.expert_tensors) {
                EXPECT_EQ(run(store, tensor, experts), experts);
            }
        }
        const uint64_t all = layout_.n_slice;
        EXPECT_EQ(store.stats().slice_reads, slots == 400 ? all : 2 * all);
    }
}

TEST_P(RealFile, ThatShrinksSpoilsTheSlicesItLostAndIsNamed) {
    ExpertStore store(layout_, std::vector<uint64_t>{30, 30}, *reader_);
    const ExpertTensor &last = layout_.expert_tensors.back();
    files_[1]->truncate(layout_.file_bytes[1] - last.slice_bytes);
    EXPECT_EQ(run(store, last, experts), experts - 1);
    const auto error = store.take_error();
    ASSERT_TRUE(error.has_value());
    EXPECT_NE(error->message().find(files_[1]->path()), std::string::npos);
    EXPECT_EQ(run(store, last, experts - 1), experts - 1);
}

INSTANTIATE_TEST_SUITE_P(Readers, RealFile, testing::Values(IoBackend::automatic, IoBackend::pread),
                         [](const auto &of) { return of.param == IoBackend::pread ? "pread" : "automatic"; });

} // namespace
} // namespace larder::test

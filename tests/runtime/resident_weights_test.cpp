// Resident weights: each byte arrives in its place, and only needed bytes are read, widened to disk blocks.
#include "base/bytes.h"
#include "runtime/resident_weights.h"
#include "support/model_fixture.h"
#include "support/sim_reader.h"

#include <fmt/format.h>
#include <ggml-backend.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <cerrno>
#include <numeric>
#include <thread>

namespace larder::test {
namespace {

constexpr std::chrono::milliseconds no_timeout{0};

struct Place {
    uint64_t gap = 0; // other bytes before the tensor
    uint64_t bytes = 0;
    uint32_t file = 0;
};

// A file with tensors of these sizes, and the same tensors in ggml's memory, not loaded yet.
class Weights {
  public:
    explicit Weights(const std::vector<Place> &places, SimOptions options = {.seed = 3}) : disk(options) {
        layout.files = {"model-00001-of-00002.gguf", "model-00002-of-00002.gguf"};
        context_.reset(ggml_init({places.size() * ggml_tensor_overhead(), nullptr, true}));
        std::vector<uint64_t> end(2, 1000); // not a multiple of any block size
        for (const Place &place : places) {
            TensorInfo info;
            info.name = fmt::format("tensor.{}", layout.tensors.size());
            info.type = GGML_TYPE_I8;
            info.type_name = "i8";
            info.shape = {static_cast<int64_t>(place.bytes), 1, 1, 1};
            info.extent = {place.file, end[place.file] + place.gap, place.bytes};
            end[place.file] = info.extent.offset + place.bytes;
            layout.tensors.push_back(info);
            tensors.push_back(ggml_new_tensor_1d(context_.get(), GGML_TYPE_I8, info.shape[0]));
            ggml_set_name(tensors.back(), info.name.c_str());
        }
        layout.file_bytes = end;
        layout.index_tensors();
        buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), ggml_backend_cpu_buffer_type()));
        ggml_backend_buffer_clear(buffer_.get(), 0xee);
    }

    void add_all(ResidentWeights &weights) const { // not in file order, as in llama.cpp
        for (size_t i = tensors.size(); i > 0; i--) {
            weights.add(tensors[i - 1]);
        }
    }
    void load() {
        ResidentWeights weights(layout, disk);
        add_all(weights);
        weights.load({}, no_timeout);
    }
    [[nodiscard]] bool in_place(size_t i) const {
        const Extent &extent = layout.tensors[i].extent;
        return SimReader::matches(extent.file, extent.offset, static_cast<const char *>(tensors[i]->data),
                                  extent.bytes);
    }
    [[nodiscard]] bool all_in_place() const {
        for (size_t i = 0; i < tensors.size(); i++) {
            if (!in_place(i)) {
                return false;
            }
        }
        return true;
    }
    [[nodiscard]] uint64_t resident_bytes() const {
        uint64_t bytes = 0;
        for (const TensorInfo &info : layout.tensors) {
            bytes += info.extent.bytes;
        }
        return bytes;
    }
    [[nodiscard]] uint64_t bytes_read() const {
        uint64_t bytes = 0;
        for (const ReadRequest &request : disk.requests()) {
            bytes += request.bytes;
        }
        return bytes;
    }

    ModelLayout layout;
    SimReader disk;
    std::vector<ggml_tensor *> tensors;

  private:
    ggml_context_ptr context_;
    ggml_backend_buffer_ptr buffer_;
};

constexpr uint64_t far = 3 * MiB + 77; // between tensors, as experts are

std::vector<Place> many_small(uint64_t gap) {
    std::vector<Place> places;
    for (uint64_t i = 0; i < 700; i++) {
        places.push_back({gap, 1 + (i * 2654435761U) % 9000, 0});
    }
    return places;
}

struct Arrangement {
    std::string name;
    std::vector<Place> places;
    uint64_t gaps = 0; // number of gaps between the pieces
};

void PrintTo(const Arrangement &arrangement, std::ostream *out) { *out << arrangement.name; }

class Loading : public testing::TestWithParam<Arrangement> {};

TEST_P(Loading, PutsEveryByteInItsPlace) {
    for (const uint64_t seed : {1, 2, 3}) {
        Weights weights(GetParam().places, {.seed = seed});
        weights.load();
        for (size_t i = 0; i < weights.tensors.size(); i++) {
            ASSERT_TRUE(weights.in_place(i)) << "tensor " << i << ", seed " << seed;
        }
    }
}

TEST_P(Loading, ReadsHardlyMoreThanTheWeightsAndNoBlockTwice) {
    Weights weights(GetParam().places);
    weights.load();
    // One disk block at each end of each run of adjacent tensors.
    EXPECT_LE(weights.bytes_read(), weights.resident_bytes() + weights.resident_bytes() / 100 +
                                        2 * (GetParam().gaps + 1) * direct_io_alignment);
    std::vector<ReadRequest> requests = weights.disk.requests();
    std::ranges::sort(requests, {}, [](const ReadRequest &r) { return std::pair(r.file, r.offset); });
    for (size_t i = 1; i < requests.size(); i++) {
        if (requests[i].file == requests[i - 1].file) {
            EXPECT_GE(requests[i].offset, requests[i - 1].offset + requests[i - 1].bytes);
        }
    }
}

TEST_P(Loading, TellsItsProgressUpToTheEnd) {
    Weights weights(GetParam().places);
    ResidentWeights resident(weights.layout, weights.disk);
    weights.add_all(resident);
    uint64_t before = 0;
    uint64_t of = 0;
    resident.load(
        [&](uint64_t done, uint64_t total) {
            EXPECT_GT(done, before);
            EXPECT_LE(done, total);
            before = done;
            of = total;
        },
        no_timeout);
    EXPECT_EQ(before, of);
    EXPECT_EQ(of, weights.bytes_read());
}

INSTANTIATE_TEST_SUITE_P(
    Tensors, Loading,
    testing::Values(Arrangement{"one_byte", {{0, 1, 0}}, 0}, Arrangement{"smaller_than_a_block", {{0, 40, 0}}, 0},
                    Arrangement{"one_block_and_a_byte_across_a_border", {{3095, 4097, 0}}, 0},
                    Arrangement{"large_of_several_chunks", {{0, 5 * MiB + 3, 0}}, 0},
                    Arrangement{"exactly_one_aligned_chunk", {{3096, MiB, 0}}, 0},
                    Arrangement{"adjacent_large", {{0, 3 * MiB, 0}, {0, 2 * MiB + 1, 0}, {31, 9, 0}, {0, MiB, 0}}, 0},
                    Arrangement{"small_adjacent", many_small(0), 0},
                    Arrangement{"small_with_padding", many_small(31), 0},
                    Arrangement{"small_a_block_apart", many_small(4096), 699},
                    Arrangement{"far_apart", {{0, 50, 0}, {far, 2 * MiB, 0}, {far, 1, 0}, {far, MiB, 0}}, 3},
                    Arrangement{"in_two_files", {{0, 9000, 0}, {0, 9000, 1}, {0, 2 * MiB, 0}, {0, 5, 1}}, 1}),
    [](const auto &of) { return of.param.name; });

TEST(ResidentWeights, AreReadInLargeWindowsSeveralUnderWay) {
    Weights weights({{0, 20 * MiB, 0}});
    weights.load();
    EXPECT_LE(weights.disk.request_count(), 21U);
    EXPECT_GT(weights.disk.max_in_flight(), 1U);
    EXPECT_LE(weights.disk.max_in_flight() * MiB, ResidentWeights::buffer_bytes());
}

TEST(ResidentWeights, OfAFailedReadAreAnIoErrorThatNamesTheFileAndLeavesNothingUnderWay) {
    Weights weights({{0, 20 * MiB, 0}, {0, 20 * MiB, 1}});
    weights.disk.fail_range(1, 7 * MiB, 1, EIO);
    const Error error = error_of([&] { weights.load(); });
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_NE(error.message().find(weights.layout.files[1]), std::string::npos) << error.what();
    EXPECT_EQ(weights.disk.in_flight(), 0U);
    weights.disk.heal();
    weights.load();
    EXPECT_TRUE(weights.all_in_place());
}

TEST(ResidentWeights, LeaveNothingInFlightWhereTheirProgressThrows) {
    Weights weights({{0, 20 * MiB, 0}});
    ResidentWeights resident(weights.layout, weights.disk);
    weights.add_all(resident);
    const auto stop = [](uint64_t, uint64_t) { throw Error(ErrorKind::engine, "stopped"); };
    EXPECT_STREQ(error_of([&] { resident.load(stop, no_timeout); }).what(), "stopped");
    EXPECT_EQ(weights.disk.in_flight(), 0U);
}

TEST(ResidentWeights, TakeNoWakeForTheEndOfTheirReads) {
    Weights weights({{0, 20 * MiB, 0}});
    ResidentWeights resident(weights.layout, weights.disk);
    weights.add_all(resident);
    weights.disk.hold();
    std::thread other([&] {
        while (weights.disk.waiting() == 0) {
            std::this_thread::yield();
        }
        weights.disk.wake();
        weights.disk.resume();
    });
    resident.load({}, no_timeout);
    other.join();
    EXPECT_TRUE(weights.all_in_place());
}

TEST(ResidentWeights, OfAFileThatEndsEarlyAreAnIoErrorThatSaysSo) {
    Weights weights({{0, 3 * MiB, 0}}, {.seed = 1, .file_bytes = 2 * MiB});
    const Error error = error_of([&] { weights.load(); });
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_NE(error.message().find("ended early"), std::string::npos) << error.what();
}

TEST(ResidentWeights, AtTheVeryEndOfAFileNeedNotFillTheLastBlock) {
    Weights weights({{0, 3 * MiB + 5, 0}}, {.seed = 1, .file_bytes = 1000 + 3 * MiB + 5});
    weights.load();
    EXPECT_TRUE(weights.all_in_place());
}

TEST(ResidentWeights, ThatTheFileLacksOrHasInAnotherShapeAreRefusedByName) {
    Weights weights({{0, 100, 0}, {0, 200, 0}});
    weights.layout.tensors[0].name = "another";
    EXPECT_NE(error_of([&] { weights.load(); }).message().find("tensor.0"), std::string::npos);
    weights.layout.tensors[0].name = "tensor.0";
    weights.layout.tensors[1].shape[0] = 199;
    const Error error = error_of([&] { weights.load(); });
    EXPECT_EQ(error.kind(), ErrorKind::model);
    EXPECT_NE(error.message().find("tensor.1"), std::string::npos) << error.what();
    EXPECT_EQ(weights.disk.request_count(), 0U) << "nothing is read of a model that will not do";
}

TEST(ResidentWeights, MayHaveFewerDimensionsInTheFileThanInTheModel) {
    Weights weights({{0, 600, 0}});
    const ggml_context_ptr context(ggml_init({ggml_tensor_overhead(), nullptr, true}));
    ggml_tensor *reshaped = ggml_new_tensor_3d(context.get(), GGML_TYPE_I8, 10, 20, 3);
    ggml_set_name(reshaped, "tensor.0");
    ggml_backend_tensor_alloc(weights.tensors[0]->buffer, reshaped, weights.tensors[0]->data);
    ResidentWeights resident(weights.layout, weights.disk);
    resident.add(reshaped);
    resident.load({}, no_timeout);
    EXPECT_TRUE(weights.in_place(0));
}

TEST(ResidentWeights, OfNoneAreLoadedAtOnce) {
    const ModelLayout layout;
    SimReader disk;
    ResidentWeights(layout, disk).load({}, no_timeout);
    EXPECT_EQ(disk.request_count(), 0U);
}

} // namespace
} // namespace larder::test

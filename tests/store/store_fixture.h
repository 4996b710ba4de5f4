// store_fixture.h — a small artificial model, and a store on a simulated disk to run batches on.
//
// The model has separate up, gate and down tensors in two files. Up and gate slices are of the small size class. Down
// is of the large class in even layers and of the small one in odd layers, as in models that mix Q6_K and Q4_K. No
// slice is aligned to disk blocks.
#pragma once

#include "base/bytes.h"
#include "base/check.h"
#include "layout/layout.h"
#include "store/store.h"
#include "support/sim_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

namespace larder::test {

inline constexpr uint32_t small_class = 0;
inline constexpr uint32_t large_class = 1;
// Long enough to contain a whole disk block that no other window touches.
inline constexpr uint64_t small_slice_bytes = 8224;
inline constexpr uint64_t large_slice_bytes = 12320;

inline ModelLayout make_layout(uint32_t layers, uint32_t experts, uint32_t top_k) {
    ModelLayout layout;
    layout.files = {"model-00001-of-00002.gguf", "model-00002-of-00002.gguf"};
    layout.n_layer = layers;
    layout.n_expert = experts;
    layout.n_expert_used = top_k;
    layout.size_classes = {{.slice_bytes = small_slice_bytes}, {.slice_bytes = large_slice_bytes}};
    std::vector<uint64_t> file_end(2, 7 * 32);
    for (uint32_t layer = 0; layer < layers; ++layer) {
        for (const Projection projection : {Projection::up, Projection::gate, Projection::down}) {
            const bool large = projection == Projection::down && layer % 2 == 0;
            const uint32_t file = layer < (layers + 1) / 2 ? 0 : 1;
            ExpertTensor tensor;
            tensor.tensor = static_cast<uint32_t>(layout.tensors.size());
            tensor.layer = layer;
            tensor.moe_layer = layer;
            tensor.projection = projection;
            tensor.n_expert = experts;
            tensor.size_class = large ? large_class : small_class;
            tensor.slice_bytes = large ? large_slice_bytes : small_slice_bytes;
            tensor.first_slice = layout.n_slice;

            TensorInfo info;
            info.extent = {file, file_end[file], experts * tensor.slice_bytes};
            file_end[file] += info.extent.bytes;
            layout.tensors.push_back(info);
            layout.expert_tensors.push_back(tensor);
            layout.n_slice += experts;
            SizeClass &size_class = layout.size_classes[tensor.size_class];
            size_class.n_slices += experts;
            size_class.n_slices_per_token += top_k;
            for (uint32_t expert = 0; expert < experts; ++expert) {
                const Window window = window_of(layout.slice_extent(tensor, expert));
                size_class.slot_bytes = std::max(size_class.slot_bytes, window.bytes);
            }
        }
    }
    layout.file_bytes = file_end;
    return layout;
}

// Checks the rule "from one thread at a time" of io.h.
class OneAtATimeReader : public Reader {
  public:
    explicit OneAtATimeReader(Reader &reader) : reader_(reader) {}
    void submit(std::span<const ReadRequest> requests) override {
        const Use use(busy_);
        reader_.submit(requests);
    }
    size_t poll(std::span<ReadResult> results, std::chrono::milliseconds at_most) override {
        const Use use(busy_);
        return reader_.poll(results, at_most);
    }
    void wake() noexcept override { reader_.wake(); }
    [[nodiscard]] size_t in_flight() const override { return reader_.in_flight(); }
    [[nodiscard]] const ReaderInfo &info() const override { return reader_.info(); }
    [[nodiscard]] FileIdentity identity(uint32_t file) const override { return reader_.identity(file); }

  private:
    struct Use {
        explicit Use(std::atomic<bool> &flag) : busy(flag) { LARDER_CHECK(!busy.exchange(true)); }
        ~Use() { busy.store(false); }
        std::atomic<bool> &busy;
    };
    Reader &reader_;
    std::atomic<bool> busy_{false};
};

// A store on a simulated disk, with the disk's clock.
class StoreOnSim {
  public:
    StoreOnSim(ModelLayout model, std::vector<uint64_t> slots, SimOptions options = {}, StoreOptions store_options = {})
        : layout(std::move(model)), disk(options),
          store_(layout, slots, guard_, by_clock_of(disk, std::move(store_options))) {}

    ExpertStore *operator->() { return &store_; }

    [[nodiscard]] const ExpertTensor &tensor(uint32_t layer, Projection projection) const {
        return *std::ranges::find_if(layout.expert_tensors, [&](const ExpertTensor &t) {
            return t.layer == layer && t.projection == projection;
        });
    }
    [[nodiscard]] SliceIndex slice(uint32_t layer, Projection projection, uint32_t expert) const {
        return tensor(layer, projection).first_slice + expert;
    }
    [[nodiscard]] std::vector<SliceIndex> slices(uint32_t layer, Projection projection,
                                                 const std::vector<uint32_t> &experts) const {
        std::vector<SliceIndex> result;
        for (const uint32_t expert : experts) {
            result.push_back(slice(layer, projection, expert));
        }
        return result;
    }
    [[nodiscard]] Extent extent(SliceIndex slice) const {
        for (const ExpertTensor &t : layout.expert_tensors) {
            if (slice < t.first_slice + t.n_expert) {
                return layout.slice_extent(t, slice - t.first_slice);
            }
        }
        return {};
    }
    [[nodiscard]] uint32_t size_class(SliceIndex slice) const {
        return extent(slice).bytes == large_slice_bytes ? large_class : small_class;
    }
    [[nodiscard]] bool holds_its_bytes(const ReadySlice &ready) const {
        const Extent e = extent(ready.slice);
        return SimReader::matches(e.file, e.offset, ready.data, e.bytes);
    }
    [[nodiscard]] uint64_t reads_of(SliceIndex slice) const {
        const Extent e = extent(slice);
        return disk.reads_at(e.file, window_of(e).offset);
    }
    [[nodiscard]] bool cached(const std::vector<SliceIndex> &all) {
        return std::ranges::all_of(all, [&](SliceIndex s) { return store_.cached(s); });
    }
    // Makes only reads of this slice fail.
    void fail_slice(SliceIndex slice, int error) {
        const Extent e = extent(slice);
        disk.fail_range(e.file, align_up(e.offset, direct_io_alignment), 1, error);
    }

    // Runs a whole batch on this thread and checks the bytes of each slice. Returns the slices that were read or
    // cached, in the order in which they became ready. The others must become ready too, without data.
    std::vector<SliceIndex> run(const std::vector<SliceIndex> &demanded, const std::vector<SliceIndex> &following = {},
                                bool first_of_layer = false, const TokenRows &rows = {}) {
        std::vector<SliceIndex> order;
        std::vector<bool> seen(demanded.size());
        store_.begin(demanded, following, first_of_layer, rows);
        store_.start_reads();
        for (uint32_t position = 0; position < demanded.size(); ++position) {
            const Pin ready = store_.wait(position);
            if (!ready) {
                ADD_FAILURE() << "nothing at position " << position;
                break;
            }
            EXPECT_EQ(demanded.at(ready->demanded_position), ready->slice);
            EXPECT_FALSE(seen.at(ready->demanded_position)) << "slice " << ready->slice << " is ready twice";
            seen.at(ready->demanded_position) = true;
            if (ready->data != nullptr) {
                EXPECT_TRUE(holds_its_bytes(*ready)) << "slice " << ready->slice;
                order.push_back(ready->slice);
            }
        }
        EXPECT_FALSE(store_.wait(static_cast<uint32_t>(demanded.size())));
        store_.end();
        return order;
    }

    const ModelLayout layout;
    SimReader disk;

  private:
    static StoreOptions by_clock_of(const SimReader &disk, StoreOptions options) {
        options.now = [&disk] { return std::chrono::steady_clock::time_point(disk.now()); };
        return options;
    }

    OneAtATimeReader guard_{disk};
    ExpertStore store_;
};

} // namespace larder::test

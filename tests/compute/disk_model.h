// disk_model.h — expert tensors of an artificial model: their bytes in a file, the file on a simulated disk, and the
// tensors in ggml in any buffer type.
#pragma once

#include "compute/compute.h"
#include "layout/layout.h"
#include "support/sim_reader.h"

#include <ggml-backend.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace larder::test {

struct ExpertSpec {
    ggml_type type = GGML_TYPE_Q4_K;
    int64_t in = 256;
    int64_t out = 200; // not a multiple of 64 or 16, so the last chunk and the last block are short
    uint32_t layer = 0;
    Projection projection = Projection::up;
};

// Quantising is slow, so few rows are made, once for all tests.
inline constexpr int64_t distinct_rows = 61;
inline const std::vector<char> &make_rows(ggml_type type, int64_t in, uint32_t seed) {
    static std::map<std::tuple<ggml_type, int64_t, uint32_t>, std::vector<char>> made;
    std::vector<char> &rows = made[{type, in, seed}];
    if (rows.empty()) {
        std::mt19937 random(seed);
        std::normal_distribution<float> normal(0, 0.5F);
        std::vector<float> values(static_cast<size_t>(distinct_rows * in));
        std::ranges::generate(values, [&] { return normal(random); });
        const std::vector<float> importance(static_cast<size_t>(in), 1.0F);
        rows.resize(distinct_rows * ggml_row_size(type, in));
        ggml_quantize_chunk(type, values.data(), rows.data(), 0, distinct_rows, in, importance.data());
    }
    return rows;
}

// The weights of one tensor. Each expert has the same rows in another order. 61 is prime, so the first rows of up to 61
// experts differ, unless `out` is a multiple of 61.
inline std::vector<char> make_weights(const ExpertSpec &spec, int64_t experts, uint32_t seed) {
    const std::vector<char> &rows = make_rows(spec.type, spec.in, seed);
    const auto row_bytes = static_cast<int64_t>(ggml_row_size(spec.type, spec.in));
    std::vector<char> weights;
    for (int64_t row = 0; row < experts * spec.out; row++) {
        const auto from = rows.begin() + row % distinct_rows * row_bytes;
        weights.insert(weights.end(), from, from + row_bytes);
    }
    return weights;
}

// The layout of such a model and its single file. No slice is aligned to disk blocks.
class DiskModel {
  public:
    DiskModel(const std::vector<ExpertSpec> &specs, uint32_t experts, uint32_t top_k) : specs_(specs) {
        layout.files = {"experts.gguf"};
        layout.n_expert = experts;
        layout.n_expert_used = top_k;
        image.resize(size_t{7} * 32);
        for (const ExpertSpec &spec : specs) {
            add(spec, experts, top_k);
        }
        layout.file_bytes = {image.size()};
    }

    [[nodiscard]] const std::vector<ExpertSpec> &specs() const { return specs_; }
    // Slots for all slices of the model.
    [[nodiscard]] std::vector<uint64_t> slots_for_all() const {
        std::vector<uint64_t> slots;
        for (const SizeClass &size_class : layout.size_classes) {
            slots.push_back(size_class.n_slices);
        }
        return slots;
    }

    ModelLayout layout;
    std::vector<char> image; // contents of the file

  private:
    void add(const ExpertSpec &spec, uint32_t experts, uint32_t top_k) {
        const std::vector<char> weights = make_weights(spec, experts, static_cast<uint32_t>(layout.tensors.size()));
        TensorInfo info;
        info.name = fmt::format("blk.{}.ffn_{}_exps.weight", spec.layer, to_string(spec.projection));
        info.type = spec.type;
        info.shape = {spec.in, spec.out, experts, 1};
        info.extent = {0, image.size(), weights.size()};
        image.insert(image.end(), weights.begin(), weights.end());
        image.resize(image.size() + 32);

        ExpertTensor tensor;
        tensor.tensor = static_cast<uint32_t>(layout.tensors.size());
        tensor.layer = spec.layer;
        tensor.moe_layer = spec.layer;
        tensor.projection = spec.projection;
        tensor.n_expert = experts;
        tensor.n_expert_used = top_k;
        tensor.slice_bytes = weights.size() / experts;
        tensor.size_class = size_class_of(tensor.slice_bytes);
        tensor.first_slice = layout.n_slice;
        layout.tensors.push_back(info);
        layout.expert_tensors.push_back(tensor);
        layout.n_slice += experts;
        SizeClass &size_class = layout.size_classes[tensor.size_class];
        size_class.n_slices += experts;
        for (uint32_t e = 0; e < experts; e++) {
            const Window window = window_of(layout.slice_extent(tensor, e));
            size_class.slot_bytes = std::max(size_class.slot_bytes, window.bytes);
        }
    }

    uint32_t size_class_of(uint64_t slice_bytes) {
        const auto found = std::ranges::find(layout.size_classes, slice_bytes, &SizeClass::slice_bytes);
        if (found == layout.size_classes.end()) {
            layout.size_classes.push_back({.slice_bytes = slice_bytes});
            return static_cast<uint32_t>(layout.size_classes.size() - 1);
        }
        return static_cast<uint32_t>(found - layout.size_classes.begin());
    }

    std::vector<ExpertSpec> specs_;
};

// A simulated disk with one given file. Order of completions and faults are those of SimReader.
class ImageReader : public Reader {
  public:
    explicit ImageReader(const std::vector<char> &image)
        : disk({.seed = 7, .file_bytes = image.size()}), image_(image) {}

    void submit(std::span<const ReadRequest> requests) override {
        for (const ReadRequest &request : requests) {
            pending_[request.tag] = request;
        }
        disk.submit(requests);
    }
    size_t poll(std::span<ReadResult> results, std::chrono::milliseconds at_most) override {
        const size_t count = disk.poll(results, at_most);
        for (const ReadResult &result : results.first(count)) {
            const ReadRequest &request = pending_.at(result.tag);
            std::copy_n(image_.data() + request.offset, result.bytes_read, request.into);
        }
        return count;
    }
    void wake() noexcept override { disk.wake(); }
    [[nodiscard]] size_t in_flight() const override { return disk.in_flight(); }
    [[nodiscard]] const ReaderInfo &info() const override { return disk.info(); }
    [[nodiscard]] FileIdentity identity(uint32_t file) const override { return disk.identity(file); }

    SimReader disk;

  private:
    const std::vector<char> &image_;
    std::map<uint64_t, ReadRequest> pending_;
};

// The model's tensors, each in a buffer of the chosen type, filled with the bytes of the file.
class LoadedTensors {
  public:
    using ChooseBufferType = std::function<ggml_backend_buffer_type_t(const ExpertSpec &)>;

    LoadedTensors(const DiskModel &model, const ChooseBufferType &choose) {
        for (size_t i = 0; i < model.specs().size(); i++) {
            const TensorInfo &info = model.layout.tensors[i];
            ggml_context_ptr &context = contexts_.emplace_back(ggml_init({ggml_tensor_overhead(), nullptr, true}));
            tensors_.push_back(ggml_new_tensor_3d(context.get(), static_cast<ggml_type>(info.type), info.shape[0],
                                                  info.shape[1], info.shape[2]));
            ggml_set_name(tensors_.back(), info.name.c_str());
            buffers_.emplace_back(ggml_backend_alloc_ctx_tensors_from_buft(context.get(), choose(model.specs()[i])));
            ggml_backend_tensor_set(tensors_.back(), model.image.data() + info.extent.offset, 0, info.extent.bytes);
        }
    }
    LoadedTensors(const DiskModel &model, ggml_backend_buffer_type_t type)
        : LoadedTensors(model, [type](const ExpertSpec & /*spec*/) { return type; }) {}

    [[nodiscard]] const std::vector<ggml_tensor *> &all() const { return tensors_; }
    [[nodiscard]] ggml_backend_buffer_t buffer() const { return buffers_.front().get(); }

  private:
    std::vector<ggml_context_ptr> contexts_;
    std::vector<ggml_backend_buffer_ptr> buffers_;
    std::vector<ggml_tensor *> tensors_;
};

} // namespace larder::test

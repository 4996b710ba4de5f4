// op_fixture.h — graphs that contain only MUL_MAT_ID, run by ggml on weights in memory and by larder's operation on
// weights on a simulated disk.
#pragma once

#include "compute/compute.h"
#include "disk_model.h"
#include "store/store.h"
#include "support/stock_repacks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <utility>

namespace larder::test {

// The experts of each token.
struct Routing {
    int64_t top_k = 0;
    int64_t tokens = 0;
    std::vector<int32_t> ids; // [tokens][top_k]
    int64_t ids_in_row = 0;   // if more than top_k: ids is a view of a wider tensor, as for the result of an argsort

    [[nodiscard]] size_t distinct() const {
        std::vector<int32_t> sorted = ids;
        std::ranges::sort(sorted);
        const auto repeated = std::ranges::unique(sorted);
        sorted.erase(repeated.begin(), repeated.end());
        return sorted.size() - (sorted.front() < 0 ? 1 : 0);
    }
};

// Random distinct experts for each token, the same in every run.
inline Routing route(int64_t tokens, int64_t top_k, int64_t experts) {
    std::mt19937 random(static_cast<uint32_t>(tokens));
    Routing routing{top_k, tokens, {}, top_k};
    std::vector<int32_t> all(static_cast<size_t>(experts));
    std::iota(all.begin(), all.end(), 0);
    for (int64_t token = 0; token < tokens; token++) {
        for (size_t k = 0; k < static_cast<size_t>(top_k); k++) {
            std::swap(all[k], all[k + random() % (all.size() - k)]);
        }
        routing.ids.insert(routing.ids.end(), all.begin(), all.begin() + top_k);
    }
    return routing;
}

// One MUL_MAT_ID for each of `weights`, in that order, with the same routing. The activations depend only on shape and
// routing.
class OpGraph {
  public:
    OpGraph(const std::vector<ggml_tensor *> &weights, const Routing &routing, bool input_per_use) {
        context_.reset(ggml_init({memory_bytes(weights, routing), nullptr, false}));
        ggml_tensor *ids = make_ids(routing);
        graph_ = ggml_new_graph(context_.get());
        for (ggml_tensor *tensor : weights) {
            ggml_tensor *input = ggml_new_tensor_3d(context_.get(), GGML_TYPE_F32, tensor->ne[0],
                                                    input_per_use ? routing.top_k : 1, routing.tokens);
            std::mt19937 random(5);
            std::normal_distribution<float> normal;
            std::generate_n(static_cast<float *>(input->data), ggml_nelements(input), [&] { return normal(random); });
            ops_.push_back(ggml_mul_mat_id(context_.get(), tensor, input, ids));
            ggml_build_forward_expand(graph_, ops_.back());
        }
    }

    // Fills the outputs with NaN first, to detect elements that are not written.
    ggml_status run(int threads, ggml_abort_callback abort = nullptr, void *user = nullptr) {
        for (ggml_tensor *op : ops_) {
            std::memset(op->data, 0xff, ggml_nbytes(op));
        }
        ggml_cplan plan = ggml_graph_plan(graph_, threads, nullptr);
        std::vector<uint8_t> work(plan.work_size);
        plan.work_data = work.data();
        plan.abort_callback = abort;
        plan.abort_callback_data = user;
        return ggml_graph_compute(graph_, &plan);
    }

    [[nodiscard]] std::vector<float> output(size_t i = 0) const {
        const auto *data = static_cast<const float *>(ops_[i]->data);
        return {data, data + ggml_nelements(ops_[i])};
    }
    [[nodiscard]] const ggml_tensor *op(size_t i = 0) const { return ops_[i]; }

  private:
    static size_t memory_bytes(const std::vector<ggml_tensor *> &weights, const Routing &routing) {
        const auto rows = static_cast<size_t>(routing.top_k * routing.tokens);
        size_t bytes = ggml_graph_overhead() + 16 * 1024 + 8 * rows * sizeof(int32_t);
        for (const ggml_tensor *tensor : weights) {
            bytes += rows * static_cast<size_t>(tensor->ne[0] + tensor->ne[1]) * sizeof(float);
        }
        return bytes;
    }

    ggml_tensor *make_ids(const Routing &routing) {
        const int64_t width = std::max(routing.ids_in_row, routing.top_k);
        ggml_tensor *wide = ggml_new_tensor_2d(context_.get(), GGML_TYPE_I32, width, routing.tokens);
        auto *data = static_cast<int32_t *>(wide->data);
        std::fill_n(data, ggml_nelements(wide), 9999); // values outside the view are not experts
        for (int64_t token = 0; token < routing.tokens; token++) {
            std::copy_n(routing.ids.data() + token * routing.top_k, routing.top_k, data + token * width);
        }
        return ggml_view_2d(context_.get(), wide, routing.top_k, routing.tokens, wide->nb[1], 0);
    }

    ggml_context_ptr context_;
    ggml_cgraph *graph_ = nullptr;
    std::vector<ggml_tensor *> ops_;
};

// The buffer type that stock llama.cpp chooses for a tensor when it repacks.
inline ggml_backend_buffer_type *stock_buffer_type(const ExpertSpec &spec, int64_t experts, Kernels kernels) {
    const bool repacked = kernels != Kernels::plain && stock_repacks(spec.type, spec.in, spec.out, experts);
    return repacked ? repack_buffer_type() : ggml_backend_cpu_buffer_type();
}

// The tensors of a model twice: in ggml's memory, and in larder's expert buffer, bound to a store on a simulated disk.
class TwoSides {
  public:
    TwoSides(DiskModel model_on_disk, const std::vector<uint64_t> &slots, Kernels kernels = Kernels::plain,
             OnUnread on_unread = {})
        : model(std::move(model_on_disk)), reader(model.image), store(model.layout, slots, reader),
          binding(model.layout, store, kernels, {}, std::move(on_unread)),
          stock(model, [this, kernels](
                           const ExpertSpec &spec) { return stock_buffer_type(spec, model.layout.n_expert, kernels); }),
          streamed(model, [](const ExpertSpec & /*spec*/) { return expert_buffer_type(); }) {
        ggml_log_set([](ggml_log_level, const char *, void *) {}, nullptr); // ggml logs each repacked tensor
        for (ggml_tensor *tensor : streamed.all()) {
            EXPECT_TRUE(binding.bind(tensor)) << tensor->name;
        }
    }

    DiskModel model;
    ImageReader reader;
    ExpertStore store;
    ExpertBinding binding;
    LoadedTensors stock;
    LoadedTensors streamed;
};

inline testing::AssertionResult same_bits(const std::vector<float> &stock, const std::vector<float> &ours) {
    if (stock.size() != ours.size()) {
        return testing::AssertionFailure() << stock.size() << " elements and " << ours.size();
    }
    for (size_t i = 0; i < stock.size(); i++) {
        if (std::memcmp(&stock[i], &ours[i], sizeof(float)) != 0) {
            return testing::AssertionFailure() << "element " << i << ": " << stock[i] << " and " << ours[i];
        }
    }
    return testing::AssertionSuccess();
}

// The output row of one use of an expert; uses are numbered token by token.
inline std::vector<float> row_of(const std::vector<float> &output, int64_t use, int64_t out) {
    return {output.begin() + use * out, output.begin() + (use + 1) * out};
}

inline bool all_zero(const std::vector<float> &values) {
    return std::ranges::all_of(values, [](float value) { return value == 0; });
}

// ThreadSanitizer does not see OpenMP's barriers, at which ggml's threads synchronise. So use one thread under it.
inline std::vector<int> thread_counts() {
#ifdef __SANITIZE_THREAD__
    return {1};
#else
    return {1, 2, 3, 4};
#endif
}

} // namespace larder::test

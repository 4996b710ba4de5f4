// Maps expert tensors to their slices and kernels.
#include "base/check.h"
#include "compute/compute.h"
#include "compute/expert_weights.h"
#include "compute/interleaved.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace larder {

namespace {

// Asks ggml how it would store each expert tensor, and chooses the kernel once for each type of weights.
class KernelChooser {
  public:
    KernelChooser(const ModelLayout &layout, Kernels kernels) : layout_(layout), kernels_(kernels) {}

    // Null: the tensor stays plain, as in stock llama.cpp.
    const RepackedKernel *operator()(const ExpertTensor &tensor) {
        const TensorInfo &info = layout_.tensors[tensor.tensor];
        const auto type = static_cast<ggml_type>(info.type);
        if (!repacks_experts(kernels_)) {
            return nullptr;
        }
        ggml_backend_buffer_type *stock =
            stock_buffer_type_of_experts(type, info.shape[0], info.shape[1], tensor.n_expert, tensor.n_expert_used);
        if (stock == nullptr) {
            return nullptr;
        }
        const RepackedKernel *kernel = stock == repack_buffer_type() ? kernel_for(type) : nullptr;
        if (kernel == nullptr || info.shape[1] % repack_rows_min != 0) {
            throw Error(ErrorKind::engine,
                        fmt::format("{}: llama.cpp keeps {} weights in its buffer type {} on this CPU, with a kernel "
                                    "that larder does not have",
                                    info.name, info.type_name, ggml_backend_buft_name(stock)),
                        "use --kernels mixed or plain");
        }
        return kernel;
    }

  private:
    const RepackedKernel *kernel_for(ggml_type type) {
        const auto [at, added] = found_.try_emplace(type, nullptr);
        if (added) {
            at->second = find_repacked_kernel(type);
        }
        return at->second;
    }

    const ModelLayout &layout_;
    Kernels kernels_;
    std::map<ggml_type, const RepackedKernel *> found_;
};

} // namespace

std::string_view to_string(Kernels kernels) {
    switch (kernels) {
    case Kernels::plain:
        return "plain";
    case Kernels::mixed:
        return "mixed";
    case Kernels::repacked:
        return "repacked";
    case Kernels::fast:
        return "fast";
    }
    check_failed("a kernel path has a name", __FILE__, __LINE__);
}

void check_kernels(const ModelLayout &layout, Kernels kernels) {
    KernelChooser choose(layout, kernels);
    for (const ExpertTensor &tensor : layout.expert_tensors) {
        choose(tensor);
    }
}

class ExpertBinding::Impl {
  public:
    Impl(const ModelLayout &layout, ExpertStore &store, Kernels kernels, OnRoute on_route, OnUnread on_unread)
        : layout_(layout), store_(store) {
        scratch_.on_route = std::move(on_route);
        scratch_.on_unread =
            on_unread ? std::move(on_unread)
                      : [this](std::span<const int32_t> /*tokens*/, int64_t /*n_token*/) { request_abort(true); };
        uint32_t n_expert_max = 0;
        for (const ExpertTensor &tensor : layout.expert_tensors) {
            n_expert_max = std::max(n_expert_max, tensor.n_expert);
        }
        scratch_.multiplied = std::vector<std::atomic<bool>>(n_expert_max);
        // Space for the siblings of a tensor: a MoE layer has at most 5 expert tensors, see describe().
        scratch_.demanded.reserve(n_expert_max);
        scratch_.demanded_expert.reserve(n_expert_max);
        scratch_.demanded_rows.reserve(n_expert_max);
        scratch_.following.reserve(size_t{4} * n_expert_max);
        weights_.reserve(layout.expert_tensors.size());
        KernelChooser choose(layout, kernels);
        for (const ExpertTensor &tensor : layout.expert_tensors) {
            weights_.push_back(describe(tensor));
            weights_.back().kernel = choose(tensor);
            if (weights_.back().kernel != nullptr) {
                const TensorInfo &info = layout.tensors[tensor.tensor];
                weights_.back().repack_traits =
                    repack_traits_of(static_cast<ggml_type>(info.type), info.shape[0], info.shape[1]);
            }
            weights_.back().gemm = kernels == Kernels::fast;
        }
    }

    ExpertWeights *find(const ggml_tensor *tensor) {
        for (ExpertWeights &weights : weights_) {
            const TensorInfo &info = layout_.tensors[weights.tensor->tensor];
            if (info.name == tensor->name) {
                const bool same = info.type == tensor->type &&
                                  std::equal(info.shape.begin(), info.shape.end(), std::begin(tensor->ne)) &&
                                  tensor->nb[2] == weights.tensor->slice_bytes;
                return same ? &weights : nullptr;
            }
        }
        return nullptr;
    }

    void request_abort(bool requested) noexcept {
        scratch_.abort_requested.store(requested, std::memory_order_relaxed);
    }
    [[nodiscard]] bool abort_requested() const {
        return scratch_.abort_requested.load(std::memory_order_relaxed) || store_.stop_requested();
    }

    std::optional<Error> take_error() {
        const std::optional<BadId> bad_id = std::exchange(scratch_.bad_id, std::nullopt);
        std::optional<Error> read_error = store_.take_error();
        if (read_error || !bad_id) {
            return read_error;
        }
        return Error(ErrorKind::model,
                     fmt::format("{}: the file's routing table names expert {} of {} in layer {}",
                                 layout_.files.front(), bad_id->id, bad_id->tensor->n_expert, bad_id->tensor->layer),
                     "get the file again, or a conversion made for llama.cpp");
    }

  private:
    ExpertWeights describe(const ExpertTensor &tensor) {
        ExpertWeights weights;
        weights.store = &store_;
        weights.scratch = &scratch_;
        weights.tensor = &tensor;
        uint32_t place = 0;
        for (const ExpertTensor &other : layout_.expert_tensors) {
            if (other.moe_layer != tensor.moe_layer) {
                continue;
            }
            if (&other == &tensor) {
                weights.bit = 1U << place;
            } else {
                weights.siblings.push_back(&other);
            }
            place++;
        }
        LARDER_CHECK(place <= 5);
        return weights;
    }

    const ModelLayout &layout_;
    ExpertStore &store_;
    OpScratch scratch_;
    std::vector<ExpertWeights> weights_;
};

ExpertBinding::ExpertBinding(const ModelLayout &layout, ExpertStore &store, Kernels kernels, OnRoute on_route,
                             OnUnread on_unread)
    : impl_(std::make_unique<Impl>(layout, store, kernels, std::move(on_route), std::move(on_unread))) {}
ExpertBinding::~ExpertBinding() = default;

bool ExpertBinding::bind(ggml_tensor *tensor) {
    ExpertWeights *weights = impl_->find(tensor);
    tensor->extra = weights;
    return weights != nullptr;
}

void ExpertBinding::request_abort() noexcept { impl_->request_abort(true); }
void ExpertBinding::clear_abort() noexcept { impl_->request_abort(false); }
bool ExpertBinding::abort_requested(void *binding) {
    return static_cast<const ExpertBinding *>(binding)->impl_->abort_requested();
}
std::optional<Error> ExpertBinding::take_error() { return impl_->take_error(); }

} // namespace larder

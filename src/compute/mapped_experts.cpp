// Experts in a file mapping: a buffer type whose tensors get their addresses later, and a hook that reports the
// router's choices before ggml's own multiplication.
#include "base/check.h"
#include "compute/compute.h"
#include "compute/op_view.h"
#include "compute/reserved_buffer.h"

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "traits.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace larder {

namespace {

void get_bytes(ggml_backend_buffer_t /*buffer*/, const ggml_tensor *tensor, void *data, size_t offset, size_t size) {
    std::memcpy(data, static_cast<const char *>(tensor->data) + offset, size);
}
// llama.cpp gives each tensor an address in the buffer. bind() replaces it.
ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, size_t size) {
    return reserve_buffer(type, size, get_bytes);
}

const char *type_name(ggml_backend_buffer_type_t /*type*/) { return "Mapped experts"; }
size_t type_alignment(ggml_backend_buffer_type_t /*type*/) { return reserved_alignment; }
bool type_is_host(ggml_backend_buffer_type_t /*type*/) { return true; }

class Looker;

// The data that `extra` of a mapped expert tensor points to.
struct Seen {
    Looker *looker;
    const ExpertTensor *tensor;
};

// Reports the choices of the router.
class Looker {
  public:
    Looker(const ModelLayout &layout, OnRoute on_route) : on_route_(std::move(on_route)) {
        seen_.reserve(layout.expert_tensors.size());
        for (const ExpertTensor &tensor : layout.expert_tensors) {
            seen_.push_back({this, &tensor});
            leaders_.resize(std::max<size_t>(leaders_.size(), tensor.moe_layer + 1));
        }
    }

    [[nodiscard]] std::span<Seen> all() { return seen_; } // in the order of the layout's expert_tensors

    // All expert tensors of a MoE layer are multiplied with the same ids, so only one of them, always the same,
    // reports.
    void look_at(const ExpertTensor &tensor, ggml_tensor *op) noexcept {
        const ExpertTensor *&leader = leaders_[tensor.moe_layer];
        if (leader == nullptr) {
            leader = &tensor;
        }
        if (leader != &tensor) {
            return;
        }
        const OpView view(op);
        const ggml_tensor *ids = op->src[2];
        try {
            route_.clear();
            for (int64_t token = 0; token < ids->ne[1]; token++) {
                for (int64_t k = 0; k < ids->ne[0]; k++) {
                    route_.push_back(view.id(k, token));
                }
            }
        } catch (const std::bad_alloc &) {
            return; // the route is not reported; the result does not depend on it
        }
        on_route_(tensor.moe_layer, static_cast<uint32_t>(ids->ne[0]), route_);
    }

  private:
    OnRoute on_route_;
    std::vector<Seen> seen_;
    std::vector<const ExpertTensor *> leaders_; // by MoE layer
    std::vector<int32_t> route_;                // of one MoE layer
};

bool is_ours(const ggml_tensor *op) {
    return op->op == GGML_OP_MUL_MAT_ID && op->src[0]->buffer != nullptr &&
           op->src[0]->buffer->buft == mapped_buffer_type();
}

// Reports the route and declines to compute: ggml then runs its own operation with its own work buffer.
class LookingTraits final : public ggml::cpu::tensor_traits {
  public:
    bool work_size(int /*n_threads*/, const ggml_tensor * /*op*/, size_t & /*size*/) override { return false; }
    bool compute_forward(ggml_compute_params *params, ggml_tensor *op) override {
        if (params->ith == 0) {
            const auto *seen = static_cast<const Seen *>(op->src[0]->extra);
            LARDER_CHECK(seen != nullptr);
            seen->looker->look_at(*seen->tensor, op);
        }
        return false;
    }
};

class MappedBufferType final : public ggml::cpu::extra_buffer_type {
  public:
    bool supports_op(ggml_backend_dev_t /*device*/, const ggml_tensor *op) override { return is_ours(op); }
    ggml::cpu::tensor_traits *get_tensor_traits(const ggml_tensor *op) override {
        return is_ours(op) ? &traits_ : nullptr;
    }

  private:
    LookingTraits traits_;
};

} // namespace

class MappedExperts::Impl {
  public:
    Impl(const ModelLayout &layout, AddressOf address_of, OnRoute on_route)
        : layout_(layout), address_of_(std::move(address_of)), looker_(layout, std::move(on_route)) {}

    const ExpertTensor *bind(ggml_tensor *tensor) {
        for (Seen &seen : looker_.all()) {
            const TensorInfo &info = layout_.tensors[seen.tensor->tensor];
            if (info.name != tensor->name) {
                continue;
            }
            if (info.type != tensor->type ||
                !std::equal(info.shape.begin(), info.shape.end(), std::begin(tensor->ne)) ||
                tensor->nb[2] != seen.tensor->slice_bytes) {
                return nullptr;
            }
            tensor->extra = &seen;
            tensor->data = const_cast<void *>(address_of_(*seen.tensor)); // ggml has no type for read-only data
            return seen.tensor;
        }
        return nullptr;
    }

  private:
    const ModelLayout &layout_;
    AddressOf address_of_;
    Looker looker_;
};

ggml_backend_buffer_type *mapped_buffer_type() {
    static MappedBufferType context;
    static ggml_backend_buffer_type type = {
        {type_name, allocate, type_alignment, nullptr, nullptr, type_is_host},
        ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0),
        &context,
    };
    static const bool registered = [] {
        expert_buffer_type(); // builds llama.cpp's list of buffer types first
        ggml_backend_cpu_get_extra_buffer_types().push_back(&type);
        return true;
    }();
    (void)registered;
    return &type;
}

MappedExperts::MappedExperts(const ModelLayout &layout, AddressOf address_of, OnRoute on_route)
    : impl_(std::make_unique<Impl>(layout, std::move(address_of), std::move(on_route))) {}
MappedExperts::~MappedExperts() = default;

const ExpertTensor *MappedExperts::bind(ggml_tensor *tensor) { return impl_->bind(tensor); }

} // namespace larder

// The buffer type of routed experts: addresses without memory.
#include "base/check.h"
#include "compute/compute.h"
#include "compute/expert_weights.h"
#include "compute/mul_mat_id.h"

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "traits.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace larder {

const char *const expert_tensor_pattern = "blk\\.[0-9]+\\.ffn_(gate|up|down|gate_up)_(ch)?exps\\.weight";

namespace {

constexpr size_t buffer_alignment = 64;

void free_buffer(ggml_backend_buffer_t buffer) { munmap(buffer->context, buffer->size); }
void *base_of(ggml_backend_buffer_t buffer) { return buffer->context; }
void set_nothing(ggml_backend_buffer_t /*buffer*/, ggml_tensor * /*tensor*/, const void * /*data*/, size_t /*offset*/,
                 size_t /*size*/) {}
void get_nothing(ggml_backend_buffer_t /*buffer*/, const ggml_tensor * /*tensor*/, void * /*data*/, size_t /*offset*/,
                 size_t /*size*/) {
    check_failed("no expert tensor is read outside of MUL_MAT_ID", __FILE__, __LINE__);
}
void clear_nothing(ggml_backend_buffer_t /*buffer*/, uint8_t /*value*/) {}

const char *type_name(ggml_backend_buffer_type_t /*type*/) { return "Experts"; }
size_t type_alignment(ggml_backend_buffer_type_t /*type*/) { return buffer_alignment; }
bool type_is_host(ggml_backend_buffer_type_t /*type*/) { return false; }

ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, size_t size) {
    // Tensors need distinct addresses, as ggml tells buffers apart by them; nothing is ever stored there.
    void *addresses = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED) {
        return nullptr; // llama.cpp reports a failed allocation
    }
    ggml_backend_buffer_i interface = {};
    interface.free_buffer = free_buffer;
    interface.get_base = base_of;
    interface.set_tensor = set_nothing;
    interface.get_tensor = get_nothing;
    interface.clear = clear_nothing;
    return ggml_backend_buffer_init(type, interface, addresses, size);
}

class ExpertTraits final : public ggml::cpu::tensor_traits {
  public:
    bool work_size(int n_threads, const ggml_tensor *op, size_t &size) override {
        size = mul_mat_id_work_size(n_threads, op);
        return true;
    }
    bool compute_forward(ggml_compute_params *params, ggml_tensor *op) override {
        mul_mat_id(params, op);
        return true;
    }
};

class ExpertBufferType final : public ggml::cpu::extra_buffer_type {
  public:
    bool supports_op(ggml_backend_dev_t /*device*/, const ggml_tensor *op) override { return is_ours(op); }
    ggml::cpu::tensor_traits *get_tensor_traits(const ggml_tensor *op) override {
        return is_ours(op) ? &traits_ : nullptr;
    }

  private:
    static bool is_ours(const ggml_tensor *op) {
        return op->op == GGML_OP_MUL_MAT_ID && op->src[0]->buffer != nullptr &&
               op->src[0]->buffer->buft == expert_buffer_type();
    }
    ExpertTraits traits_;
};

} // namespace

ggml_backend_buffer_type *expert_buffer_type() {
    static ExpertBufferType context;
    static ggml_backend_buffer_type type = {
        {type_name, allocate, type_alignment, nullptr, nullptr, type_is_host},
        ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0),
        &context,
    };
    static const bool registered = [] {
        ggml_backend_cpu_get_extra_buffer_types().push_back(&type);
        return true;
    }();
    (void)registered;
    return &type;
}

class ExpertBinding::Impl {
  public:
    Impl(const ModelLayout &layout, ExpertStore &store, OnRoute on_route) : layout_(layout), store_(store) {
        scratch_.on_route = std::move(on_route);
        uint32_t n_expert_max = 0;
        for (const ExpertTensor &tensor : layout.expert_tensors) {
            n_expert_max = std::max(n_expert_max, tensor.n_expert);
        }
        scratch_.chunks_left = std::vector<std::atomic<uint32_t>>(n_expert_max);
        // Room for the siblings of a tensor: a group has at most 5 projections, see describe().
        scratch_.demanded.reserve(n_expert_max);
        scratch_.demanded_expert.reserve(n_expert_max);
        scratch_.demanded_rows.reserve(n_expert_max);
        scratch_.following.reserve(size_t{4} * n_expert_max);
        weights_.reserve(layout.expert_tensors.size());
        for (const ExpertTensor &tensor : layout.expert_tensors) {
            weights_.push_back(describe(tensor));
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

    [[nodiscard]] bool failed() const { return store_.failed(); }

  private:
    ExpertWeights describe(const ExpertTensor &tensor) {
        ExpertWeights weights{&store_, &scratch_, &tensor, 0, {}};
        uint32_t place = 0;
        for (const ExpertTensor &other : layout_.expert_tensors) {
            if (other.group != tensor.group) {
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

ExpertBinding::ExpertBinding(const ModelLayout &layout, ExpertStore &store, OnRoute on_route)
    : impl_(std::make_unique<Impl>(layout, store, std::move(on_route))) {}
ExpertBinding::~ExpertBinding() = default;

bool ExpertBinding::bind(ggml_tensor *tensor) {
    ExpertWeights *weights = impl_->find(tensor);
    tensor->extra = weights;
    return weights != nullptr;
}

bool ExpertBinding::abort_requested(void *binding) {
    return static_cast<const ExpertBinding *>(binding)->impl_->failed();
}

} // namespace larder

// The buffer type for routed experts: addresses without memory.
#include "base/check.h"
#include "compute/compute.h"
#include "compute/expert_weights.h"
#include "compute/mul_mat_id.h"
#include "compute/reserved_buffer.h"

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "traits.h"

namespace larder {

const char *const expert_tensor_pattern = "blk\\.[0-9]+\\.ffn_(gate|up|down|gate_up)_(ch)?exps\\.weight";

namespace {

void get_nothing(ggml_backend_buffer_t /*buffer*/, const ggml_tensor * /*tensor*/, void * /*data*/, size_t /*offset*/,
                 size_t /*size*/) {
    check_failed("no expert tensor is read outside of MUL_MAT_ID", __FILE__, __LINE__);
}
const char *type_name(ggml_backend_buffer_type_t /*type*/) { return "Experts"; }
size_t type_alignment(ggml_backend_buffer_type_t /*type*/) { return reserved_alignment; }
bool type_is_host(ggml_backend_buffer_type_t /*type*/) { return false; }

ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, size_t size) {
    return reserve_buffer(type, size, get_nothing);
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

// llama.cpp asks ggml for the extra buffer types that it may choose from. ggml builds this list once. Requesting it
// before larder's types are registered keeps them out of the list: they are used only where an override names them.
void settle_llamas_choice() {
    using GetExtra = ggml_backend_buffer_type_t *(*)(ggml_backend_dev_t);
    const auto get = reinterpret_cast<GetExtra>(
        ggml_backend_reg_get_proc_address(ggml_backend_cpu_reg(), "ggml_backend_dev_get_extra_bufts"));
    if (get != nullptr) {
        get(ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0));
    }
}

} // namespace

ggml_backend_buffer_type *expert_buffer_type() {
    static ExpertBufferType context;
    static ggml_backend_buffer_type type = {
        {type_name, allocate, type_alignment, nullptr, nullptr, type_is_host},
        ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0),
        &context,
    };
    static const bool registered = [] {
        settle_llamas_choice();
        ggml_backend_cpu_get_extra_buffer_types().push_back(&type);
        ggml_backend_cpu_get_extra_buffer_types().push_back(tied_buffer_type());
        return true;
    }();
    (void)registered;
    return &type;
}

} // namespace larder

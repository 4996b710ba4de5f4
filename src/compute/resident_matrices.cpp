// Repacked resident matrices: in ggml's own buffer type, and in larder's buffer type for matrices that are also read
// plain.
#include "base/bytes.h"
#include "base/check.h"
#include "compute/compute.h"
#include "compute/interleaved.h"

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "repack.h"
#include "traits.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace larder {

namespace {

constexpr size_t copy_alignment = 64;

char *repacked_copy(const ggml_tensor *tied) {
    return static_cast<char *>(tied->data) + align_up(ggml_nbytes(tied), copy_alignment);
}

// The operation with the repacked copy as its weights, in the form that ggml's traits require.
struct RepackedOp {
    explicit RepackedOp(const ggml_tensor *of) : op(*of), weights(*of->src[0]) {
        weights.data = repacked_copy(&weights);
        weights.extra = repack_traits_of(weights.type, weights.ne[0], weights.ne[1]);
        op.src[0] = &weights;
    }
    [[nodiscard]] ggml::cpu::tensor_traits *traits() const {
        return static_cast<ggml::cpu::tensor_traits *>(weights.extra);
    }
    ggml_tensor op;
    ggml_tensor weights;
};

class TiedTraits final : public ggml::cpu::tensor_traits {
  public:
    bool work_size(int n_threads, const ggml_tensor *op, size_t &size) override {
        const RepackedOp repacked(op);
        return repacked.traits()->work_size(n_threads, &repacked.op, size);
    }
    bool compute_forward(ggml_compute_params *params, ggml_tensor *op) override {
        RepackedOp repacked(op);
        return repacked.traits()->compute_forward(params, &repacked.op);
    }
};

class TiedBufferType final : public ggml::cpu::extra_buffer_type {
  public:
    bool supports_op(ggml_backend_dev_t /*device*/, const ggml_tensor *op) override {
        return op->op == GGML_OP_GET_ROWS || is_product(op);
    }
    // Without traits, ggml runs its own operation on the plain bytes.
    ggml::cpu::tensor_traits *get_tensor_traits(const ggml_tensor *op) override {
        return is_product(op) ? &traits_ : nullptr;
    }

  private:
    static bool is_product(const ggml_tensor *op) {
        return op->op == GGML_OP_MUL_MAT && op->src[0]->buffer != nullptr &&
               op->src[0]->buffer->buft == tied_buffer_type();
    }
    TiedTraits traits_;
};

const char *type_name(ggml_backend_buffer_type_t /*type*/) { return "Tied"; }
size_t type_alignment(ggml_backend_buffer_type_t /*type*/) { return copy_alignment; }
size_t tensor_bytes(ggml_backend_buffer_type_t /*type*/, const ggml_tensor *tensor) {
    return align_up(ggml_nbytes(tensor), copy_alignment) + ggml_nbytes(tensor);
}
bool type_is_host(ggml_backend_buffer_type_t /*type*/) { return false; }

ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, size_t size) {
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
    if (buffer != nullptr) {
        buffer->buft = type;
    }
    return buffer;
}

} // namespace

ggml_backend_buffer_type *repack_buffer_type() { return ggml_backend_cpu_repack_buffer_type(); }

ggml_backend_buffer_type *tied_buffer_type() {
    static TiedBufferType context;
    static ggml_backend_buffer_type type = {
        {type_name, allocate, type_alignment, nullptr, tensor_bytes, type_is_host},
        ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0),
        &context,
    };
    return &type;
}

// Repacks a few rows at a time, so that repacking in place needs no second matrix.
void repack_resident(ggml_tensor *tensor) {
    const ggml_backend_buffer_type *type = tensor->buffer->buft;
    const bool tied = type == tied_buffer_type();
    if (!tied && type != repack_buffer_type()) {
        return;
    }
    LARDER_CHECK(ggml_nrows(tensor) == tensor->ne[1]);
    void *traits = repack_traits_of(tensor->type, tensor->ne[0], tensor->ne[1]);
    LARDER_CHECK(traits != nullptr);
    constexpr int64_t rows_at_once = 2 * repack_rows_min;
    std::vector<char> plain(static_cast<size_t>(rows_at_once) * tensor->nb[1]);
    char *into = tied ? repacked_copy(tensor) : static_cast<char *>(tensor->data);
    for (int64_t row = 0; row < tensor->ne[1]; row += rows_at_once) {
        const int64_t n = std::min(rows_at_once, tensor->ne[1] - row);
        const size_t offset = static_cast<size_t>(row) * tensor->nb[1];
        std::memcpy(plain.data(), static_cast<char *>(tensor->data) + offset, static_cast<size_t>(n) * tensor->nb[1]);
        repack_rows(traits, tensor->type, tensor->ne[0], n, plain.data(), into + offset);
    }
}

} // namespace larder

#include "compute/interleaved.h"

#include "base/check.h"
#include "compute/compute.h"

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "repack.h"
#include "traits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

namespace larder {

namespace {

constexpr RepackedKernel q8_0_four(ggml_type type, RepackedKernel::Multiply gemv, RepackedKernel::Multiply gemm) {
    return {type, GGML_TYPE_Q8_0, gemv, gemm, ggml_quantize_mat_q8_0_4x4};
}
constexpr RepackedKernel q8_0_eight(ggml_type type, RepackedKernel::Multiply gemv, RepackedKernel::Multiply gemm) {
    return {type, GGML_TYPE_Q8_0, gemv, gemm, ggml_quantize_mat_q8_0_4x8};
}
constexpr RepackedKernel q8_k_four(ggml_type type, RepackedKernel::Multiply gemv, RepackedKernel::Multiply gemm) {
    return {type, GGML_TYPE_Q8_K, gemv, gemm, ggml_quantize_mat_q8_K_4x4};
}
constexpr RepackedKernel q8_k_eight(ggml_type type, RepackedKernel::Multiply gemv, RepackedKernel::Multiply gemm) {
    return {type, GGML_TYPE_Q8_K, gemv, gemm, ggml_quantize_mat_q8_K_4x8};
}

// ggml's names contain: type of the weights, rows in a group x bytes of a row that are interleaved at a time.
// Activations for gemm are interleaved by the same number of bytes.
const std::array kernels = {
    q8_0_eight(GGML_TYPE_Q4_0, ggml_gemv_q4_0_8x8_q8_0, ggml_gemm_q4_0_8x8_q8_0),
    q8_0_eight(GGML_TYPE_Q4_0, ggml_gemv_q4_0_4x8_q8_0, ggml_gemm_q4_0_4x8_q8_0),
    q8_0_four(GGML_TYPE_Q4_0, ggml_gemv_q4_0_4x4_q8_0, ggml_gemm_q4_0_4x4_q8_0),
    q8_k_eight(GGML_TYPE_Q4_K, ggml_gemv_q4_K_8x8_q8_K, ggml_gemm_q4_K_8x8_q8_K),
    q8_k_four(GGML_TYPE_Q4_K, ggml_gemv_q4_K_8x4_q8_K, ggml_gemm_q4_K_8x4_q8_K),
    q8_k_eight(GGML_TYPE_Q2_K, ggml_gemv_q2_K_8x8_q8_K, ggml_gemm_q2_K_8x8_q8_K),
    q8_k_eight(GGML_TYPE_Q5_K, ggml_gemv_q5_K_8x8_q8_K, ggml_gemm_q5_K_8x8_q8_K),
    q8_k_four(GGML_TYPE_Q5_K, ggml_gemv_q5_K_8x4_q8_K, ggml_gemm_q5_K_8x4_q8_K),
    q8_k_eight(GGML_TYPE_Q6_K, ggml_gemv_q6_K_8x8_q8_K, ggml_gemm_q6_K_8x8_q8_K),
    q8_k_four(GGML_TYPE_Q6_K, ggml_gemv_q6_K_8x4_q8_K, ggml_gemm_q6_K_8x4_q8_K),
    q8_0_eight(GGML_TYPE_IQ4_NL, ggml_gemv_iq4_nl_8x8_q8_0, ggml_gemm_iq4_nl_8x8_q8_0),
    q8_0_four(GGML_TYPE_IQ4_NL, ggml_gemv_iq4_nl_4x4_q8_0, ggml_gemm_iq4_nl_4x4_q8_0),
    q8_0_eight(GGML_TYPE_MXFP4, ggml_gemv_mxfp4_8x8_q8_0, ggml_gemm_mxfp4_8x8_q8_0),
    q8_0_four(GGML_TYPE_MXFP4, ggml_gemv_mxfp4_4x4_q8_0, ggml_gemm_mxfp4_4x4_q8_0),
    q8_0_eight(GGML_TYPE_Q8_0, ggml_gemv_q8_0_4x8_q8_0, ggml_gemm_q8_0_4x8_q8_0),
    q8_0_four(GGML_TYPE_Q8_0, ggml_gemv_q8_0_4x4_q8_0, ggml_gemm_q8_0_4x4_q8_0),
    q8_0_eight(GGML_TYPE_Q1_0, ggml_gemv_q1_0_4x8_q8_0, ggml_gemm_q1_0_4x8_q8_0),
    q8_0_four(GGML_TYPE_Q1_0, ggml_gemv_q1_0_4x4_q8_0, ggml_gemm_q1_0_4x4_q8_0),
};

ggml_backend_dev_t cpu() { return ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0); }

// The buffer through which ggml repacks. The repacked bytes need not be inside it.
ggml_backend_buffer_t repack_buffer() {
    static const ggml_backend_buffer_ptr buffer(
        ggml_backend_buft_alloc_buffer(ggml_backend_cpu_repack_buffer_type(), 64));
    LARDER_CHECK(buffer != nullptr);
    return buffer.get();
}

ggml_tensor rows_at(ggml_type type, int64_t in, int64_t rows, void *data) {
    ggml_tensor tensor = {};
    tensor.type = type;
    tensor.ne[0] = in;
    tensor.ne[1] = rows;
    tensor.ne[2] = tensor.ne[3] = 1;
    tensor.nb[0] = ggml_type_size(type);
    tensor.nb[1] = ggml_row_size(type, in);
    tensor.nb[2] = tensor.nb[3] = tensor.nb[1] * static_cast<size_t>(rows);
    tensor.data = data;
    tensor.buffer = repack_buffer();
    return tensor;
}

std::vector<float> some_numbers(size_t n, uint32_t seed) {
    std::minstd_rand random(seed);
    std::vector<float> numbers(n);
    std::ranges::generate(numbers, [&] { return static_cast<float>(random()) / 1e9F - 1; }); // in [-1, 1.15)
    return numbers;
}

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

// One MUL_MAT_ID as stock llama.cpp runs it: two experts in the repack buffer, and a few tokens that all use the
// second.
class Trial {
  public:
    static constexpr int64_t in = 512;
    static constexpr int64_t out = 16;
    static constexpr int64_t tokens = 3;

    explicit Trial(ggml_type type) : input_(some_numbers(in * tokens, 2)) {
        weights_context_.reset(ggml_init({ggml_tensor_overhead(), nullptr, true}));
        weights_ = ggml_new_tensor_3d(weights_context_.get(), type, in, out, 2);
        buffer_.reset(
            ggml_backend_alloc_ctx_tensors_from_buft(weights_context_.get(), ggml_backend_cpu_repack_buffer_type()));
        LARDER_CHECK(buffer_ != nullptr);
        const std::vector<float> values = some_numbers(in * out * 2, 1);
        const std::vector<float> importance(in, 1);
        std::vector<char> plain(ggml_nbytes(weights_));
        ggml_quantize_chunk(type, values.data(), plain.data(), 0, out * 2, in, importance.data());
        ggml_backend_tensor_set(weights_, plain.data(), 0, plain.size());
        run_stock();
    }

    [[nodiscard]] bool matches(const RepackedKernel &kernel) const {
        std::vector<char> row(ggml_row_size(kernel.input_type, in));
        std::array<float, out> result{};
        for (int64_t token = 0; token < tokens; token++) {
            ggml_get_type_traits_cpu(kernel.input_type)->from_float(input_.data() + token * in, row.data(), in);
            kernel.gemv(in, result.data(), out, static_cast<const char *>(weights_->data) + weights_->nb[2], row.data(),
                        1, out);
            if (!std::equal(result.begin(), result.end(), stock_.begin() + token * out, same_bits)) {
                return false;
            }
        }
        return true;
    }

  private:
    void run_stock() {
        const ggml_context_ptr context(ggml_init({size_t{256} * 1024, nullptr, false}));
        ggml_tensor *input = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, in, 1, tokens);
        std::memcpy(input->data, input_.data(), ggml_nbytes(input));
        ggml_tensor *ids = ggml_new_tensor_2d(context.get(), GGML_TYPE_I32, 1, tokens);
        std::fill_n(static_cast<int32_t *>(ids->data), tokens, 1);
        ggml_tensor *op = ggml_mul_mat_id(context.get(), weights_, input, ids);
        ggml_cgraph *graph = ggml_new_graph_custom(context.get(), 8, false);
        ggml_build_forward_expand(graph, op);
        ggml_cplan plan = ggml_graph_plan(graph, 1, nullptr);
        std::vector<uint8_t> work(plan.work_size);
        plan.work_data = work.data();
        LARDER_CHECK(ggml_graph_compute(graph, &plan) == GGML_STATUS_SUCCESS);
        const auto *result = static_cast<const float *>(op->data);
        stock_.assign(result, result + ggml_nelements(op));
    }

    std::vector<float> input_;
    ggml_context_ptr weights_context_;
    ggml_tensor *weights_ = nullptr;
    ggml_backend_buffer_ptr buffer_;
    std::vector<float> stock_; // [tokens][out]
};

} // namespace

ggml_backend_buffer_type *stock_buffer_type_of_experts(ggml_type type, int64_t in, int64_t out, int64_t experts,
                                                       int64_t top_k) {
    const ggml_context_ptr context(ggml_init({8 * ggml_tensor_overhead(), nullptr, true}));
    ggml_tensor *weights = ggml_new_tensor_3d(context.get(), type, in, out, experts);
    ggml_tensor *input = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, in, top_k, 512);
    ggml_tensor *ids = ggml_new_tensor_2d(context.get(), GGML_TYPE_I32, top_k, 512);
    const ggml_tensor *op = ggml_mul_mat_id(context.get(), weights, input, ids);
    const std::array larders = {expert_buffer_type(), tied_buffer_type(), mapped_buffer_type()};
    for (ggml_backend_buffer_type *buffer_type : ggml_backend_cpu_get_extra_buffer_types()) {
        if (std::ranges::find(larders, buffer_type) != larders.end()) {
            continue;
        }
        const ggml_backend_buffer_ptr empty(ggml_backend_buft_alloc_buffer(buffer_type, 0));
        weights->buffer = empty.get();
        const bool supported = ggml_backend_dev_supports_op(cpu(), op);
        weights->buffer = nullptr;
        if (supported) {
            return buffer_type;
        }
    }
    return nullptr;
}

const RepackedKernel *find_repacked_kernel(ggml_type type) {
    const auto is_of_type = [type](const RepackedKernel &kernel) { return kernel.type == type; };
    if (std::ranges::none_of(kernels, is_of_type) || repack_traits_of(type, Trial::in, Trial::out) == nullptr) {
        return nullptr;
    }
    const Trial trial(type);
    const auto *const found = std::ranges::find_if(
        kernels, [&](const RepackedKernel &kernel) { return is_of_type(kernel) && trial.matches(kernel); });
    return found == kernels.end() ? nullptr : found;
}

void *repack_traits_of(ggml_type type, int64_t in, int64_t rows) {
    ggml_tensor matrix = rows_at(type, in, rows, nullptr);
    ggml_backend_buffer_init_tensor(matrix.buffer, &matrix); // chooses the traits by type and number of rows
    return matrix.extra;
}

void repack_rows(void *traits, ggml_type type, int64_t in, int64_t rows, const char *plain, char *into) {
    ggml_tensor part = rows_at(type, in, rows, into);
    part.extra = traits;
    ggml_backend_tensor_set(&part, plain, 0, ggml_nbytes(&part));
}

} // namespace larder

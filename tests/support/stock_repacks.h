// stock_repacks.h — whether ggml repacks certain weights. It depends on the instruction set, so tests query ggml
// instead of using a list.
#pragma once

#include "compute/compute.h"

#include <ggml-backend.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>
#include <ggml.h>

namespace larder::test {

// Whether ggml on this CPU multiplies `experts` stacked matrices of `out` rows and `in` columns in its repack buffer
// (MUL_MAT_ID). With 0 experts: one matrix (MUL_MAT).
inline bool stock_repacks(ggml_type type, int64_t in, int64_t out, int64_t experts = 0) {
    const ggml_context_ptr context(ggml_init({8 * ggml_tensor_overhead(), nullptr, true}));
    const ggml_backend_buffer_ptr buffer(ggml_backend_buft_alloc_buffer(repack_buffer_type(), 0));
    ggml_tensor *weights = experts == 0 ? ggml_new_tensor_2d(context.get(), type, in, out)
                                        : ggml_new_tensor_3d(context.get(), type, in, out, experts);
    weights->buffer = buffer.get();
    ggml_tensor *input = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, in, 1, experts == 0 ? 1 : 4);
    const ggml_tensor *product =
        experts == 0 ? ggml_mul_mat(context.get(), weights, input)
                     : ggml_mul_mat_id(context.get(), weights, input,
                                       ggml_new_tensor_2d(context.get(), GGML_TYPE_I32, 1, input->ne[2]));
    return ggml_backend_dev_supports_op(ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0), product);
}

} // namespace larder::test

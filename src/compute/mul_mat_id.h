// mul_mat_id.h — MUL_MAT_ID with weights from a store (private to compute).
//
//   dst[:, k, t] = slice(ids[k, t]) * src1[:, k % ne11, t]      for every token t and chosen expert k
//
// src[0] expert tensor [in, out, n_expert], src[1] activations f32 [in, 1 or top-k, tokens], src[2] ids i32 [top-k,
// tokens] (a strided view), dst f32 [out, top-k, tokens]. A negative id means no expert: its output row is zero.
#pragma once

#include <cstddef>

struct ggml_tensor;
struct ggml_compute_params;

namespace larder {

// The size of the work buffer that all threads share, in bytes.
size_t mul_mat_id_work_size(int n_threads, const ggml_tensor *op);

// Does this thread's part. Called on every compute thread; synchronises them with ggml's barrier.
void mul_mat_id(ggml_compute_params *params, ggml_tensor *op);

} // namespace larder

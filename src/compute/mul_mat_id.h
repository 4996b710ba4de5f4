// mul_mat_id.h — ggml's MUL_MAT_ID on weights that a store streams (private to compute).
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

// Bytes of work memory the op needs (shared by all threads).
size_t mul_mat_id_work_size(int n_threads, const ggml_tensor *op);

// Runs this thread's share. Called on every compute thread; synchronises them with ggml's barrier.
void mul_mat_id(ggml_compute_params *params, ggml_tensor *op);

} // namespace larder

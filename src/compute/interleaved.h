// interleaved.h — ggml's interleaved weight layouts and the kernels for them (private to compute).
//
// A repacked matrix holds its rows in groups of 4 or 8, a group's blocks shuffled together, so that one pass over an
// activation row yields 4 or 8 outputs. A group fills exactly the bytes its plain rows filled, which is why rows can be
// repacked in place, group by group. ggml does the shuffling itself, through its repack buffer type; which layout it
// takes on this CPU it does not say.
#pragma once

#include "ggml.h"

#include <cstddef>
#include <cstdint>

struct ggml_backend_buffer_type;

namespace larder {

// Kernels over one layout. gemv: one activation row (of input_type) times nc weight rows. gemm: rows in groups of four,
// as quantise_four() writes them, nr a multiple of four; output rows are bs floats apart.
struct RepackedKernel {
    using Multiply = void (*)(int n, float *s, size_t bs, const void *vx, const void *vy, int nr, int nc);
    using QuantiseFour = void (*)(const float *x, void *vy, int64_t k);
    ggml_type type;
    ggml_type input_type;
    Multiply gemv;
    Multiply gemm;
    QuantiseFour quantise_four; // x: four rows of k floats, one behind the other
};

// Rows of any known layout's group divide this.
inline constexpr int64_t repack_rows_min = 8;

// The extra buffer type that stock llama.cpp keeps these expert weights in for MUL_MAT_ID; null if none, that is plain.
ggml_backend_buffer_type *stock_buffer_type_of_experts(ggml_type type, int64_t in, int64_t out, int64_t experts,
                                                       int64_t top_k);

// The kernel whose results are ggml's own, bit for bit, on weights of this type in its repack buffer. Found by trying
// all there are, in less than a millisecond; null if none is.
const RepackedKernel *find_repacked_kernel(ggml_type type);

// ggml's traits of a repacked matrix of this shape: its layout, and who runs its MUL_MAT. Null if ggml does not repack
// it.
void *repack_traits_of(ggml_type type, int64_t in, int64_t rows);

// Repacks `rows` plain rows of `in` weights from `plain` into `into`, which is part of a matrix with these traits.
// Whole groups only; a multiple of repack_rows_min is one in every layout. Any thread.
void repack_rows(void *traits, ggml_type type, int64_t in, int64_t rows, const char *plain, char *into);

} // namespace larder

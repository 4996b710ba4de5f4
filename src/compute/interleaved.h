// interleaved.h — ggml's interleaved weight layouts and the kernels for them (private to compute).
//
// A repacked matrix has its rows in groups of 4 or 8, and the blocks of a group are interleaved, so that one pass over
// an activation row yields 4 or 8 outputs. A group has exactly the size of its plain rows, so rows can be repacked in
// place, group by group. ggml does the interleaving through its repack buffer type. It does not report which layout it
// uses on this CPU.
#pragma once

#include "ggml.h"

#include <cstddef>
#include <cstdint>

struct ggml_backend_buffer_type;

namespace larder {

// The kernels for one layout. gemv: one activation row (of input_type) times nc weight rows. gemm: rows in groups of
// four, as quantise_four() writes them; nr is a multiple of four; output rows are bs floats apart.
struct RepackedKernel {
    using Multiply = void (*)(int n, float *s, size_t bs, const void *vx, const void *vy, int nr, int nc);
    using QuantiseFour = void (*)(const float *x, void *vy, int64_t k);
    ggml_type type;
    ggml_type input_type;
    Multiply gemv;
    Multiply gemm;
    QuantiseFour quantise_four; // x: four consecutive rows of k floats
};

// A multiple of the rows in a group, for every known layout.
inline constexpr int64_t repack_rows_min = 8;

// The extra buffer type in which stock llama.cpp stores these expert weights for MUL_MAT_ID; null if none: they stay
// plain.
ggml_backend_buffer_type *stock_buffer_type_of_experts(ggml_type type, int64_t in, int64_t out, int64_t experts,
                                                       int64_t top_k);

// The kernel whose results equal ggml's own, bit for bit, on weights of this type in its repack buffer. Tries all
// kernels, which takes less than a millisecond. Null if none matches.
const RepackedKernel *find_repacked_kernel(ggml_type type);

// ggml's traits of a repacked matrix of this shape: its layout, and the code for its MUL_MAT. Null if ggml does not
// repack it.
void *repack_traits_of(ggml_type type, int64_t in, int64_t rows);

// Repacks `rows` plain rows of `in` weights from `plain` into `into`, which is part of a matrix with these traits.
// Whole groups only: a multiple of repack_rows_min suffices for every layout. Any thread.
void repack_rows(void *traits, ggml_type type, int64_t in, int64_t rows, const char *plain, char *into);

} // namespace larder

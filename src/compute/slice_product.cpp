#include "compute/slice_product.h"

#include "ggml-cpu.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace larder {

namespace {

// 16 rows of 2048 Q4_K weights are 18 KiB: they stay in the L1 cache while all uses are multiplied with them.
constexpr int64_t block_rows = 16;
constexpr size_t gemm_rows = 4;      // activation rows in a group for gemm
constexpr size_t gemm_uses_max = 64; // maximum for one call of gemm

} // namespace

ggml_type SliceProduct::input_type(const ggml_tensor *weights, ProductKind kind) {
    return kind.kernel != nullptr ? kind.kernel->input_type : ggml_get_type_traits_cpu(weights->type)->vec_dot_type;
}

size_t SliceProduct::scratch_bytes(const ggml_tensor *weights, ProductKind kind) {
    if (kind.kernel == nullptr) {
        return 0;
    }
    const size_t gathered = kind.gemm ? gemm_rows * static_cast<size_t>(weights->ne[0]) * sizeof(float) : 0;
    return std::max(static_cast<size_t>(block_rows) * weights->nb[1], gathered);
}

SliceProduct::SliceProduct(const OpView &view, const ggml_tensor *weights, ProductKind kind, char *quantised,
                           char *scratch)
    : view_(view), weights_(weights), kind_(kind), quantised_(input_type(weights, kind) != GGML_TYPE_F32),
      input_row_bytes_(ggml_row_size(input_type(weights, kind), weights->ne[0])), quantised_rows_(quantised),
      scratch_(scratch) {}

const char *SliceProduct::input(RowUse use) const {
    const int64_t row = view_.input_row_of(use);
    return quantised_ ? quantised_rows_ + static_cast<size_t>(row) * input_row_bytes_ : view_.input(row);
}

void SliceProduct::quantise_row(int64_t row) const {
    ggml_get_type_traits_cpu(input_type(weights_, kind_))
        ->from_float(reinterpret_cast<const float *>(view_.input(row)),
                     quantised_rows_ + static_cast<size_t>(row) * input_row_bytes_, weights_->ne[0]);
}

void SliceProduct::quantise_uses(std::span<const RowUse> uses, size_t first_use) const {
    const ggml_from_float_t from_float = ggml_get_type_traits_cpu(kind_.kernel->input_type)->from_float;
    const size_t row_bytes = static_cast<size_t>(weights_->ne[0]) * sizeof(float);
    char *into = quantised_rows_ + first_use * input_row_bytes_;
    while (uses.size() >= gemm_rows) {
        for (size_t i = 0; i < gemm_rows; i++) {
            std::memcpy(scratch_ + i * row_bytes, view_.input(view_.input_row_of(uses[i])), row_bytes);
        }
        kind_.kernel->quantise_four(reinterpret_cast<const float *>(scratch_), into, weights_->ne[0]);
        into += gemm_rows * input_row_bytes_;
        uses = uses.subspan(gemm_rows);
    }
    for (const RowUse use : uses) {
        from_float(reinterpret_cast<const float *>(view_.input(view_.input_row_of(use))), into, weights_->ne[0]);
        into += input_row_bytes_;
    }
}

void SliceProduct::multiply(char *slice, bool repack, std::span<const RowUse> uses, size_t first_use, int64_t begin,
                            int64_t end) const {
    if (kind_.kernel == nullptr) {
        multiply_plain(slice, uses, begin, end);
        return;
    }
    const auto in = static_cast<int>(weights_->ne[0]);
    const size_t n_four = kind_.gemm ? uses.size() / gemm_rows * gemm_rows : 0;
    const char *use_rows = quantised_rows_ + first_use * input_row_bytes_;
    for (int64_t block = begin; block < end; block += block_rows) {
        char *rows = slice + static_cast<size_t>(block) * weights_->nb[1];
        const int64_t n = std::min(block_rows, end - block);
        if (repack) {
            const size_t bytes = static_cast<size_t>(n) * weights_->nb[1];
            std::memcpy(scratch_, rows, bytes);
            repack_rows(kind_.traits, weights_->type, weights_->ne[0], n, scratch_, rows);
        }
        multiply_gemm(rows, uses.first(n_four), use_rows, block, n);
        for (size_t u = n_four; u < uses.size(); u++) {
            const char *row = kind_.gemm ? use_rows + u * input_row_bytes_ : input(uses[u]);
            kind_.kernel->gemv(in, view_.output(uses[u]) + block, static_cast<size_t>(weights_->ne[1]), rows, row, 1,
                               static_cast<int>(n));
        }
    }
}

// gemm writes output rows at a constant distance. The output rows of an expert's uses do not have one, so the results
// are copied.
void SliceProduct::multiply_gemm(const char *rows, std::span<const RowUse> fours, const char *input, int64_t begin,
                                 int64_t n) const {
    std::array<float, gemm_uses_max * block_rows> results;
    while (!fours.empty()) {
        const size_t n_use = std::min(fours.size(), gemm_uses_max);
        kind_.kernel->gemm(static_cast<int>(weights_->ne[0]), results.data(), block_rows, rows, input,
                           static_cast<int>(n_use), static_cast<int>(n));
        for (size_t u = 0; u < n_use; u++) {
            std::copy_n(results.data() + u * block_rows, n, view_.output(fours[u]) + begin);
        }
        input += n_use * input_row_bytes_;
        fours = fours.subspan(n_use);
    }
}

void SliceProduct::multiply_plain(const char *slice, std::span<const RowUse> uses, int64_t begin, int64_t end) const {
    const ggml_vec_dot_t vec_dot = ggml_get_type_traits_cpu(weights_->type)->vec_dot;
    const auto in = static_cast<int>(weights_->ne[0]);
    for (int64_t block = begin; block < end; block += block_rows) {
        const int64_t block_end = std::min(block + block_rows, end);
        for (const RowUse use : uses) {
            const char *row_in = input(use);
            float *output = view_.output(use);
            for (int64_t row = block; row < block_end; row++) {
                vec_dot(in, output + row, 0, slice + static_cast<size_t>(row) * weights_->nb[1], 0, row_in, 0, 1);
            }
        }
    }
}

} // namespace larder

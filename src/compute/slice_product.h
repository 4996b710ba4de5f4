// slice_product.h — multiplies rows of one expert's slice with the activations of all tokens that use the expert
// (private to compute).
//
// There are three paths (docs/kernels.md):
//   - plain: one vec_dot for each output element, like stock's operation.
//   - repacked: gemv over groups of rows, like stock's operation on its repack buffer. The first thread that uses rows
//     of the slice repacks them in place.
//   - fast: like repacked, but gemm for groups of four uses. The last bits differ from both of stock's paths.
// On each path some rows of the slice stay in the L1 cache while all uses are multiplied with them.
#pragma once

#include "compute/interleaved.h"
#include "compute/op_view.h"
#include "store/store.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace larder {

// The properties of an operation's weights that determine the path.
struct ProductKind {
    const RepackedKernel *kernel = nullptr; // null: plain
    void *traits = nullptr;                 // of the repacked slice, for repack_rows()
    bool gemm = false;                      // only with a kernel: the fast path
};

class SliceProduct {
  public:
    // Scratch bytes for each thread.
    static size_t scratch_bytes(const ggml_tensor *weights, ProductKind kind);

    // `quantised` has rows of the kernel's input type. For gemm: one row per use, in the order of the experts' uses,
    // written by quantise_uses(). Otherwise: one row per row of src1, written by quantise_row().
    SliceProduct(const OpView &view, const ggml_tensor *weights, ProductKind kind, char *quantised, char *scratch);

    [[nodiscard]] static ggml_type input_type(const ggml_tensor *weights, ProductKind kind);
    [[nodiscard]] size_t input_row_bytes() const { return input_row_bytes_; }

    void quantise_row(int64_t row) const;
    // Quantises the uses of one expert. `first_use` is the index of the first one among all uses. Whole groups of four
    // are interleaved for gemm.
    void quantise_uses(std::span<const RowUse> uses, size_t first_use) const;

    // Computes rows [begin, end) of the slice for `uses`; `first_use` is the index of the first one among all uses.
    // `begin` is a multiple of repack_rows_min. If `repack` is true, the rows are still plain and are repacked in
    // place.
    void multiply(char *slice, bool repack, std::span<const RowUse> uses, size_t first_use, int64_t begin,
                  int64_t end) const;

  private:
    void multiply_plain(const char *slice, std::span<const RowUse> uses, int64_t begin, int64_t end) const;
    void multiply_gemm(const char *rows, std::span<const RowUse> fours, const char *input, int64_t begin,
                       int64_t n) const;
    [[nodiscard]] const char *input(RowUse use) const;

    const OpView &view_;
    const ggml_tensor *weights_;
    ProductKind kind_;
    bool quantised_; // src1 does not have the kernel's input type
    size_t input_row_bytes_;
    char *quantised_rows_;
    char *scratch_;
};

} // namespace larder

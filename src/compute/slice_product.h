// slice_product.h — rows of one expert's slice times the activations of all tokens that chose it (private to compute).
//
// Three ways, by what a tensor's weights are (see docs/kernels.md):
//   plain      one vec_dot for each output element, as stock's op
//   repacked   gemv over groups of rows, as stock's op on its repack buffer; the slice's rows are repacked in place by
//              whoever comes first
//   fast       as repacked, but gemm for uses in groups of four: other last bits than either of stock's
// In each, a block of rows stays in the L1 cache while all uses pass over it.
#pragma once

#include "compute/interleaved.h"
#include "compute/op_view.h"
#include "store/store.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace larder {

// What of an op's weights decides how they are multiplied.
struct ProductKind {
    const RepackedKernel *kernel = nullptr; // null: plain
    void *traits = nullptr;                 // of the repacked slice, for repack_rows()
    bool gemm = false;                      // with a kernel only: fast
};

class SliceProduct {
  public:
    // Scratch that each thread needs.
    static size_t scratch_bytes(const ggml_tensor *weights, ProductKind kind);

    // `quantised`: rows of the kernel's input type. For gemm one for each use, in the order of the experts' uses,
    // written by quantise_uses(); else one for each row of src1, written by quantise_row().
    SliceProduct(const OpView &view, const ggml_tensor *weights, ProductKind kind, char *quantised, char *scratch);

    [[nodiscard]] static ggml_type input_type(const ggml_tensor *weights, ProductKind kind);
    [[nodiscard]] size_t input_row_bytes() const { return input_row_bytes_; }

    void quantise_row(int64_t row) const;
    // The uses of one expert, of which the first is use number `first_use` of all. Whole fours are shuffled for gemm.
    void quantise_uses(std::span<const RowUse> uses, size_t first_use) const;

    // Rows [begin, end) of the slice for `uses`, the first of which is number `first_use` of all. `begin` is a multiple
    // of repack_rows_min; `repack`: the rows are still plain, and shall not be so afterwards.
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
    bool quantised_; // src1 is not of the type the kernel wants
    size_t input_row_bytes_;
    char *quantised_rows_;
    char *scratch_;
};

} // namespace larder

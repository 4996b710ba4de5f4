// op_view.h — a MUL_MAT_ID's tensors by rows (private to compute).
#pragma once

#include "ggml.h"

#include <cstddef>
#include <cstdint>

namespace larder {

// One use of an expert: the place k among a token's chosen experts, and the token. Two int32 in this order, as ggml's
// panel kernel reads them.
struct RowUse {
    int32_t k;
    int32_t token;
};

class OpView {
  public:
    explicit OpView(ggml_tensor *op) : op_(op), input_(op->src[1]), ids_(op->src[2]) {}

    [[nodiscard]] int32_t id(int64_t k, int64_t token) const {
        return *reinterpret_cast<const int32_t *>(static_cast<const char *>(ids_->data) +
                                                  static_cast<size_t>(token) * ids_->nb[1] +
                                                  static_cast<size_t>(k) * ids_->nb[0]);
    }
    [[nodiscard]] float *output(RowUse use) const {
        return reinterpret_cast<float *>(static_cast<char *>(op_->data) + static_cast<size_t>(use.k) * op_->nb[1] +
                                         static_cast<size_t>(use.token) * op_->nb[2]);
    }

    // All tokens share a row of src1, or each of their uses has its own. Rows are numbered token after token.
    [[nodiscard]] int64_t input_rows() const { return input_->ne[1] * input_->ne[2]; }
    [[nodiscard]] int64_t input_row_of(RowUse use) const { return use.k % input_->ne[1] + use.token * input_->ne[1]; }
    [[nodiscard]] const char *input(int64_t row) const {
        return static_cast<const char *>(input_->data) + static_cast<size_t>(row % input_->ne[1]) * input_->nb[1] +
               static_cast<size_t>(row / input_->ne[1]) * input_->nb[2];
    }

  private:
    ggml_tensor *op_;
    const ggml_tensor *input_;
    const ggml_tensor *ids_;
};

} // namespace larder

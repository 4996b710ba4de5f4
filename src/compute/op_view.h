// op_view.h — access to the tensors of a MUL_MAT_ID by rows (private to compute).
#pragma once

#include "ggml.h"

#include <cstddef>
#include <cstdint>

namespace larder {

// One use of an expert: the index k among the token's chosen experts, and the token. Two int32 in this order, because
// ggml's panel kernel reads them so.
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

    // src1 has one row for all uses of a token, or one row per use. Rows are numbered token by token.
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

#include "compute/mul_mat_id.h"

#include "base/bytes.h"
#include "base/check.h"
#include "compute/expert_weights.h"
#include "compute/op_view.h"
#include "compute/slice_product.h"

#include "ggml-cpu-impl.h"
#include "ggml-cpu.h"
#include "ggml-threading.h"
#include "ggml.h"
#include "iqp.h"

#include <algorithm>
#include <cstring>

namespace larder {

namespace {

// Rows of a slice that a thread takes at a time.
constexpr int64_t chunk_rows = 64;
static_assert(chunk_rows % repack_rows_min == 0);
constexpr size_t section_alignment = 64;

// Offsets in the operation's work buffer. The quantised activations come first, because ggml's panel kernel expects
// them there.
struct WorkLayout {
    size_t row_begin = 0; // uint32_t [n_expert + 1]: the uses of expert e are rows[row_begin[e] .. row_begin[e + 1])
    size_t row_fill = 0;  // uint32_t [n_expert]
    size_t rows = 0;      // RowUse [top-k * tokens]
    size_t unread = 0;    // bool [tokens]
    size_t tokens = 0;    // int32_t [tokens]: the unread tokens
    size_t panels = 0;
    size_t scratch = 0; // [n_threads]
    size_t scratch_bytes = 0;
    size_t total = 0;
};

// gemm needs groups of four rows, so it is not used for fewer tokens.
ProductKind product_kind(const ggml_tensor *op) {
    const ExpertWeights &weights = *static_cast<const ExpertWeights *>(op->src[0]->extra);
    return {weights.kernel, weights.repack_traits, weights.kernel != nullptr && weights.gemm && op->src[2]->ne[1] >= 4};
}

WorkLayout work_layout(int n_threads, const ggml_tensor *op) {
    const ggml_tensor *weights = op->src[0];
    const ggml_tensor *ids = op->src[2];
    const ProductKind kind = product_kind(op);
    const ggml_type input_type = SliceProduct::input_type(weights, kind);
    const auto n_expert = static_cast<size_t>(weights->ne[2]);
    const auto n_use = static_cast<size_t>(ids->ne[0] * ids->ne[1]);
    WorkLayout at;
    size_t end = 0;
    if (input_type != op->src[1]->type) {
        const size_t n_row = kind.gemm ? n_use : static_cast<size_t>(ggml_nrows(op->src[1]));
        end = n_row * ggml_row_size(input_type, weights->ne[0]);
    }
    const auto section = [&end](size_t bytes) {
        const size_t begin = align_up(end, section_alignment);
        end = begin + bytes;
        return begin;
    };
    at.row_begin = section((n_expert + 1) * sizeof(uint32_t));
    at.row_fill = section(n_expert * sizeof(uint32_t));
    at.rows = section(n_use * sizeof(RowUse));
    at.unread = section(static_cast<size_t>(ids->ne[1]) * sizeof(bool));
    at.tokens = section(static_cast<size_t>(ids->ne[1]) * sizeof(int32_t));
    if (ggml_cpu_iqp_supports_mul_mat_id(op)) {
        at.panels = section(static_cast<size_t>(n_threads) * ggml_cpu_iqp_scratch_size(op));
    }
    at.scratch_bytes = align_up(SliceProduct::scratch_bytes(weights, kind), section_alignment);
    at.scratch = section(static_cast<size_t>(n_threads) * at.scratch_bytes);
    at.total = end + section_alignment; // the work buffer may have a smaller alignment
    return at;
}

// One run of the operation, from the view of one thread.
class Run {
  public:
    Run(ggml_compute_params *params, ggml_tensor *op)
        : Run(params, op, product_kind(op), work_layout(params->nth, op), aligned_work(params)) {}

    void operator()() {
        if (params_->ith == 0) {
            group_rows_by_expert();
            demand_slices();
            hand_out_chunks();
        }
        quantise_input();
        ggml_barrier(params_->threadpool);
        if (params_->ith == 0) {
            store_.start_reads();
        }
        multiply_chunks();
        if (scratch_.threads_left.fetch_sub(1, std::memory_order_acq_rel) == 1) { // others wait at the end of the node
            zero_unread_slices();
            store_.end();
            report_unread();
        }
    }

  private:
    static char *aligned_work(const ggml_compute_params *params) {
        const auto address = reinterpret_cast<uintptr_t>(params->wdata);
        return static_cast<char *>(params->wdata) + (align_up(address, section_alignment) - address);
    }

    Run(ggml_compute_params *params, ggml_tensor *op, ProductKind kind, const WorkLayout &at, char *work)
        : params_(params), op_(op), weights_(op->src[0]), ids_(op->src[2]), view_(op),
          expert_weights_(*static_cast<ExpertWeights *>(op->src[0]->extra)), scratch_(*expert_weights_.scratch),
          store_(*expert_weights_.store), kind_(kind),
          product_(view_, weights_, kind, static_cast<char *>(params->wdata),
                   work + at.scratch + static_cast<size_t>(params->ith) * at.scratch_bytes),
          chunks_per_slice_(static_cast<uint32_t>((weights_->ne[1] + chunk_rows - 1) / chunk_rows)),
          panels_(ggml_cpu_iqp_supports_mul_mat_id(op) && !params->use_ref),
          row_begin_(reinterpret_cast<uint32_t *>(work + at.row_begin)),
          row_fill_(reinterpret_cast<uint32_t *>(work + at.row_fill)),
          rows_(reinterpret_cast<RowUse *>(work + at.rows)), unread_(reinterpret_cast<bool *>(work + at.unread)),
          tokens_(reinterpret_cast<int32_t *>(work + at.tokens)), panel_memory_(work + at.panels) {
        LARDER_CHECK(at.total <= params->wsize);
    }

    // The expert to multiply with; negative if there is none. Ids may come from the file (token-id routing), so an id
    // beyond the model's experts is not a bug in larder.
    [[nodiscard]] int32_t expert_of(int64_t k, int64_t token) const {
        const int32_t id = view_.id(k, token);
        return id < weights_->ne[2] ? id : -1;
    }
    [[nodiscard]] std::span<const RowUse> uses_of(uint32_t e) const {
        return {rows_ + row_begin_[e], row_begin_[e + 1] - row_begin_[e]};
    }

    // Thread 0: counting sort of all (token, k) by expert.
    void group_rows_by_expert() {
        const int64_t n_expert = weights_->ne[2];
        const bool aborting = scratch_.abort_requested.load(std::memory_order_relaxed);
        std::fill_n(row_begin_, n_expert + 1, 0U);
        std::fill_n(unread_, ids_->ne[1], false);
        for (int64_t token = 0; token < ids_->ne[1]; token++) {
            for (int64_t k = 0; k < ids_->ne[0]; k++) {
                const int32_t expert = aborting ? -1 : expert_of(k, token);
                if (expert >= 0) {
                    row_begin_[expert + 1]++;
                } else {
                    leave_out({static_cast<int32_t>(k), static_cast<int32_t>(token)});
                }
            }
        }
        for (int64_t e = 0; e < n_expert; e++) {
            row_begin_[e + 1] += row_begin_[e];
            row_fill_[e] = row_begin_[e];
        }
        for (int64_t token = 0; token < ids_->ne[1]; token++) {
            for (int64_t k = 0; k < ids_->ne[0]; k++) {
                const int32_t expert = aborting ? -1 : expert_of(k, token);
                if (expert >= 0) {
                    rows_[row_fill_[expert]++] = {static_cast<int32_t>(k), static_cast<int32_t>(token)};
                }
            }
        }
    }

    // Thread 0: handles a use without an expert. A negative id means that the router chose none.
    void leave_out(RowUse use) {
        zero(use);
        const int32_t id = view_.id(use.k, use.token);
        unread_[use.token] = unread_[use.token] || id >= 0;
        if (id >= weights_->ne[2] && !scratch_.bad_id) {
            scratch_.bad_id = {expert_weights_.tensor, id};
        }
    }

    void zero(RowUse use) { std::memset(view_.output(use), 0, static_cast<size_t>(op_->ne[0]) * sizeof(float)); }

    // Called by the last thread. No other thread writes to these rows, because their slices were not multiplied.
    void zero_unread_slices() {
        for (size_t i = 0; i < scratch_.demanded.size(); i++) {
            if (scratch_.multiplied[i].load(std::memory_order_relaxed)) {
                continue;
            }
            for (const RowUse use : uses_of(scratch_.demanded_expert[i])) {
                zero(use);
                unread_[use.token] = true;
            }
        }
    }

    void report_unread() {
        size_t n = 0;
        for (int64_t token = 0; token < ids_->ne[1]; token++) {
            if (unread_[token]) {
                tokens_[n++] = static_cast<int32_t>(token);
            }
        }
        if (n > 0) {
            scratch_.on_unread({tokens_, n}, ids_->ne[1]);
        }
    }

    // Thread 0: begins the batch. The first operation of a MoE layer also names the slices for the layer's other
    // operations.
    void demand_slices() {
        scratch_.demanded.clear();
        scratch_.demanded_expert.clear();
        scratch_.demanded_rows.clear();
        scratch_.following.clear();
        for (uint32_t e = 0; e < expert_weights_.tensor->n_expert; e++) {
            if (row_begin_[e] != row_begin_[e + 1]) {
                scratch_.demanded.push_back(expert_weights_.tensor->first_slice + e);
                scratch_.demanded_expert.push_back(e);
                scratch_.demanded_rows.push_back(row_begin_[e + 1] - row_begin_[e]);
            }
        }
        const bool first =
            scratch_.moe_layer != expert_weights_.tensor->moe_layer || (scratch_.seen & expert_weights_.bit) != 0;
        if (first) {
            scratch_.moe_layer = expert_weights_.tensor->moe_layer;
            scratch_.seen = 0;
            for (const ExpertTensor *sibling : expert_weights_.siblings) {
                for (const uint32_t e : scratch_.demanded_expert) {
                    scratch_.following.push_back(sibling->first_slice + e);
                }
            }
        }
        if (first && scratch_.on_route) {
            report_route();
        }
        scratch_.seen |= expert_weights_.bit;
        store_.begin(scratch_.demanded, scratch_.following, first,
                     {scratch_.demanded_rows, static_cast<uint32_t>(ids_->ne[1])}, chunks_per_slice_);
    }

    void report_route() {
        scratch_.route.clear();
        for (int64_t token = 0; token < ids_->ne[1]; token++) {
            for (int64_t k = 0; k < ids_->ne[0]; k++) {
                scratch_.route.push_back(std::max(expert_of(k, token), -1));
            }
        }
        scratch_.on_route(expert_weights_.tensor->moe_layer, static_cast<uint32_t>(ids_->ne[0]), scratch_.route);
    }

    // Thread 0, before the barrier at which the other threads wait.
    void hand_out_chunks() {
        for (size_t i = 0; i < scratch_.demanded.size(); i++) {
            scratch_.multiplied[i].store(false, std::memory_order_relaxed);
        }
        scratch_.next_chunk.store(0, std::memory_order_relaxed);
        scratch_.threads_left.store(params_->nth, std::memory_order_relaxed);
    }

    // All threads: converts activations to the input type of the kernel. Blocks are independent, so the result equals
    // stock's for any distribution of rows.
    void quantise_input() {
        if (kind_.gemm) {
            ggml_barrier(params_->threadpool); // wait until the rows are grouped
            for (uint32_t e = static_cast<uint32_t>(params_->ith); e < weights_->ne[2];
                 e += static_cast<uint32_t>(params_->nth)) {
                product_.quantise_uses(uses_of(e), row_begin_[e]);
            }
        } else if (SliceProduct::input_type(weights_, kind_) != op_->src[1]->type) {
            for (int64_t row = params_->ith; row < view_.input_rows(); row += params_->nth) {
                product_.quantise_row(row);
            }
        }
    }

    // All threads: chunks of rows, in the order in which slices become ready.
    void multiply_chunks() {
        for (;;) {
            const uint32_t chunk = scratch_.next_chunk.fetch_add(1, std::memory_order_relaxed);
            const uint32_t position = chunk / chunks_per_slice_;
            const uint32_t part = chunk % chunks_per_slice_;
            const Pin slice = store_.wait(position);
            if (!slice) {
                return;
            }
            if (slice->data != nullptr) {
                multiply(*slice, part, chunks_per_slice_);
                if (part == 0) { // whichever thread has it; the other parts are multiplied too
                    scratch_.multiplied[slice->demanded_position].store(true, std::memory_order_relaxed);
                }
            }
        }
    }

    void multiply(const ReadySlice &slice, uint32_t part, uint32_t parts) {
        const uint32_t e = scratch_.demanded_expert[slice.demanded_position];
        const std::span<const RowUse> uses = uses_of(e);
        if (panels_ && ggml_cpu_iqp_mul_mat_id_min_batch(static_cast<int64_t>(uses.size()))) {
            multiply_panels(slice, uses, static_cast<int>(part), static_cast<int>(parts));
            return;
        }
        const int64_t begin = part * chunk_rows;
        product_.multiply(slice.data, slice.first_use, uses, row_begin_[e], begin,
                          std::min(begin + chunk_rows, weights_->ne[1]));
    }

    // ggml's panel kernel distributes the rows of a slice by thread number: part i of n is computed as if by thread i
    // of n. It stores decoded weights in the panel of that thread number, which must be this thread's own memory.
    void multiply_panels(const ReadySlice &slice, std::span<const RowUse> uses, int part, int parts) {
        ggml_compute_params as_part = *params_;
        as_part.ith = part;
        as_part.nth = parts;
        ggml_tensor weights = *weights_;
        weights.data = slice.data;
        ggml_tensor op = *op_;
        op.src[0] = &weights;
        const auto panel_bytes = static_cast<int64_t>(ggml_cpu_iqp_scratch_size(op_));
        ggml_compute_forward_mul_mat_id_iqp(&as_part, &op, 0, static_cast<int64_t>(uses.size()),
                                            reinterpret_cast<const int32_t *>(uses.data()),
                                            panel_memory_ + (params_->ith - part) * panel_bytes);
    }

    ggml_compute_params *params_;
    ggml_tensor *op_;
    const ggml_tensor *weights_;
    const ggml_tensor *ids_;
    OpView view_;
    const ExpertWeights &expert_weights_;
    OpScratch &scratch_;
    ExpertStore &store_;
    ProductKind kind_;
    SliceProduct product_;
    uint32_t chunks_per_slice_;
    bool panels_;
    uint32_t *row_begin_;
    uint32_t *row_fill_;
    RowUse *rows_;
    bool *unread_;
    int32_t *tokens_;
    char *panel_memory_;
};

} // namespace

size_t mul_mat_id_work_size(int n_threads, const ggml_tensor *op) { return work_layout(n_threads, op).total; }

void mul_mat_id(ggml_compute_params *params, ggml_tensor *op) {
    LARDER_CHECK(op->src[0]->extra != nullptr);
    Run(params, op)();
}

} // namespace larder

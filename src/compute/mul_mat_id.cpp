#include "compute/mul_mat_id.h"

#include "base/bytes.h"
#include "base/check.h"
#include "compute/expert_weights.h"

#include "ggml-cpu-impl.h"
#include "ggml-cpu.h"
#include "ggml-threading.h"
#include "ggml.h"
#include "iqp.h"

#include <algorithm>
#include <cstring>

namespace larder {

namespace {

// Rows of a slice that are handed to a thread at a time, and the block of them that stays in the L1 cache while all
// tokens pass over it (16 rows of 2048 Q4_K weights are 18 KiB).
constexpr int64_t chunk_rows = 64;
constexpr int64_t block_rows = 16;
constexpr size_t section_alignment = 64;

// One use of an expert: the place k among a token's chosen experts, and the token. Two int32 in this order, as ggml's
// panel kernel reads them.
struct RowUse {
    int32_t k;
    int32_t token;
};

// Where things lie in the op's work memory. The quantised activations come first: ggml's panel kernel expects them
// there.
struct WorkLayout {
    size_t row_begin = 0; // uint32_t [n_expert + 1]: the uses of expert e are rows[row_begin[e] .. row_begin[e + 1])
    size_t row_fill = 0;  // uint32_t [n_expert]
    size_t rows = 0;      // RowUse [top-k * tokens]
    size_t panels = 0;
    size_t total = 0;
};

bool needs_quantising(const ggml_tensor *op) {
    return op->src[1]->type != ggml_get_type_traits_cpu(op->src[0]->type)->vec_dot_type;
}

WorkLayout work_layout(int n_threads, const ggml_tensor *op) {
    const ggml_tensor *weights = op->src[0];
    const ggml_tensor *ids = op->src[2];
    const auto n_expert = static_cast<size_t>(weights->ne[2]);
    const auto n_use = static_cast<size_t>(ids->ne[0] * ids->ne[1]);
    WorkLayout at;
    size_t end = 0;
    if (needs_quantising(op)) {
        end = ggml_row_size(ggml_get_type_traits_cpu(weights->type)->vec_dot_type, ggml_nelements(op->src[1]));
    }
    const auto section = [&end](size_t bytes) {
        const size_t begin = align_up(end, section_alignment);
        end = begin + bytes;
        return begin;
    };
    at.row_begin = section((n_expert + 1) * sizeof(uint32_t));
    at.row_fill = section(n_expert * sizeof(uint32_t));
    at.rows = section(n_use * sizeof(RowUse));
    if (ggml_cpu_iqp_supports_mul_mat_id(op)) {
        at.panels = section(static_cast<size_t>(n_threads) * ggml_cpu_iqp_scratch_size(op));
    }
    at.total = end + section_alignment; // the work memory itself may be aligned to less
    return at;
}

// One run of the op, as one thread sees it.
class Run {
  public:
    Run(ggml_compute_params *params, ggml_tensor *op)
        : params_(params), op_(op), weights_(op->src[0]), input_(op->src[1]), ids_(op->src[2]),
          expert_weights_(*static_cast<ExpertWeights *>(op->src[0]->extra)), scratch_(*expert_weights_.scratch),
          store_(*expert_weights_.store), traits_(ggml_get_type_traits_cpu(weights_->type)),
          chunks_per_slice_(static_cast<uint32_t>((weights_->ne[1] + chunk_rows - 1) / chunk_rows)),
          quantised_(needs_quantising(op)), panels_(ggml_cpu_iqp_supports_mul_mat_id(op) && !params->use_ref) {
        const WorkLayout at = work_layout(params->nth, op);
        LARDER_CHECK(at.total <= params->wsize);
        const auto address = reinterpret_cast<uintptr_t>(params->wdata);
        char *const base = static_cast<char *>(params->wdata) + (align_up(address, section_alignment) - address);
        input_row_bytes_ = ggml_row_size(traits_->vec_dot_type, input_->ne[0]);
        row_begin_ = reinterpret_cast<uint32_t *>(base + at.row_begin);
        row_fill_ = reinterpret_cast<uint32_t *>(base + at.row_fill);
        rows_ = reinterpret_cast<RowUse *>(base + at.rows);
        panel_memory_ = base + at.panels;
    }

    void operator()() {
        if (params_->ith == 0) {
            group_rows_by_expert();
            demand_slices();
            hand_out_chunks();
        }
        if (quantised_) {
            quantise_input();
        }
        ggml_barrier(params_->threadpool);
        if (params_->ith == 0) {
            store_.start_reads();
        }
        multiply_chunks();
        ggml_barrier(params_->threadpool);
        if (params_->ith == 0) {
            store_.end();
            if (store_.failed()) {
                std::memset(op_->data, 0, ggml_nbytes(op_));
            }
        }
    }

  private:
    [[nodiscard]] int32_t id_of(int64_t k, int64_t token) const {
        const int32_t id = *reinterpret_cast<const int32_t *>(static_cast<const char *>(ids_->data) +
                                                              token * static_cast<int64_t>(ids_->nb[1]) +
                                                              k * static_cast<int64_t>(ids_->nb[0]));
        LARDER_CHECK(id < weights_->ne[2]);
        return id;
    }
    [[nodiscard]] float *output_row(RowUse use) const {
        return reinterpret_cast<float *>(static_cast<char *>(op_->data) + static_cast<size_t>(use.k) * op_->nb[1] +
                                         static_cast<size_t>(use.token) * op_->nb[2]);
    }
    [[nodiscard]] const char *input_row(RowUse use) const {
        const int64_t i1 = use.k % input_->ne[1];
        if (quantised_) {
            return static_cast<const char *>(params_->wdata) +
                   static_cast<size_t>(i1 + use.token * input_->ne[1]) * input_row_bytes_;
        }
        return static_cast<const char *>(input_->data) + static_cast<size_t>(i1) * input_->nb[1] +
               static_cast<size_t>(use.token) * input_->nb[2];
    }

    // Thread 0: counting sort of all (token, k) by expert.
    void group_rows_by_expert() {
        const int64_t n_expert = weights_->ne[2];
        std::fill_n(row_begin_, n_expert + 1, 0U);
        for (int64_t token = 0; token < ids_->ne[1]; token++) {
            for (int64_t k = 0; k < ids_->ne[0]; k++) {
                const int32_t id = id_of(k, token);
                if (id >= 0) {
                    row_begin_[id + 1]++;
                } else {
                    std::memset(output_row({static_cast<int32_t>(k), static_cast<int32_t>(token)}), 0,
                                static_cast<size_t>(op_->ne[0]) * sizeof(float));
                }
            }
        }
        for (int64_t e = 0; e < n_expert; e++) {
            row_begin_[e + 1] += row_begin_[e];
            row_fill_[e] = row_begin_[e];
        }
        for (int64_t token = 0; token < ids_->ne[1]; token++) {
            for (int64_t k = 0; k < ids_->ne[0]; k++) {
                const int32_t id = id_of(k, token);
                if (id >= 0) {
                    rows_[row_fill_[id]++] = {static_cast<int32_t>(k), static_cast<int32_t>(token)};
                }
            }
        }
    }

    // Thread 0: tells the store what this op needs and, on the first op of a MoE block, what the others will.
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
            scratch_.group != expert_weights_.tensor->group || (scratch_.seen & expert_weights_.bit) != 0;
        if (first) {
            scratch_.group = expert_weights_.tensor->group;
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
                     {scratch_.demanded_rows, static_cast<uint32_t>(ids_->ne[1])});
    }

    void report_route() {
        scratch_.route.clear();
        for (int64_t token = 0; token < ids_->ne[1]; token++) {
            for (int64_t k = 0; k < ids_->ne[0]; k++) {
                scratch_.route.push_back(id_of(k, token));
            }
        }
        scratch_.on_route(expert_weights_.tensor->group, static_cast<uint32_t>(ids_->ne[0]), scratch_.route);
    }

    // Thread 0, before the barrier that lets the others at it.
    void hand_out_chunks() {
        for (size_t i = 0; i < scratch_.demanded.size(); i++) {
            scratch_.chunks_left[i].store(chunks_per_slice_, std::memory_order_relaxed);
        }
        scratch_.next_chunk.store(0, std::memory_order_relaxed);
    }

    // All threads: rows of src1 to the type the kernel wants. Blocks are independent, so whole rows give stock's bits.
    void quantise_input() {
        const ggml_from_float_t from_float = ggml_get_type_traits_cpu(traits_->vec_dot_type)->from_float;
        const int64_t n_row = input_->ne[1] * input_->ne[2];
        for (int64_t row = params_->ith; row < n_row; row += params_->nth) {
            const int64_t i1 = row % input_->ne[1];
            const int64_t i2 = row / input_->ne[1];
            const char *from = static_cast<const char *>(input_->data) + static_cast<size_t>(i1) * input_->nb[1] +
                               static_cast<size_t>(i2) * input_->nb[2];
            from_float(reinterpret_cast<const float *>(from),
                       static_cast<char *>(params_->wdata) + static_cast<size_t>(row) * input_row_bytes_,
                       input_->ne[0]);
        }
    }

    // All threads: chunks of rows, in the order in which slices become ready.
    void multiply_chunks() {
        for (;;) {
            const uint32_t chunk = scratch_.next_chunk.fetch_add(1, std::memory_order_relaxed);
            const uint32_t position = chunk / chunks_per_slice_;
            const ReadySlice *slice = store_.wait(position);
            if (slice == nullptr) {
                return;
            }
            multiply(*slice, chunk % chunks_per_slice_, chunks_per_slice_);
            if (scratch_.chunks_left[position].fetch_sub(1, std::memory_order_acq_rel) == 1) {
                store_.release(position);
            }
        }
    }

    void multiply(const ReadySlice &slice, uint32_t part, uint32_t parts) {
        const uint32_t e = scratch_.demanded_expert[slice.demanded_position];
        const RowUse *uses = rows_ + row_begin_[e];
        const int64_t n_use = row_begin_[e + 1] - row_begin_[e];
        if (panels_ && ggml_cpu_iqp_mul_mat_id_min_batch(n_use)) {
            multiply_panels(slice, uses, n_use, static_cast<int>(part), static_cast<int>(parts));
            return;
        }
        const int64_t first = part * chunk_rows;
        const int64_t end = std::min(first + chunk_rows, weights_->ne[1]);
        for (int64_t block = first; block < end; block += block_rows) {
            const int64_t block_end = std::min(block + block_rows, end);
            for (int64_t u = 0; u < n_use; u++) {
                const char *input = input_row(uses[u]);
                float *output = output_row(uses[u]);
                for (int64_t row = block; row < block_end; row++) {
                    traits_->vec_dot(static_cast<int>(weights_->ne[0]), output + row, 0,
                                     slice.data + static_cast<size_t>(row) * weights_->nb[1], 0, input, 0, 1);
                }
            }
        }
    }

    // ggml's panel kernel splits the rows of a slice by thread number: part i of n is run as if by thread i of n. It
    // keeps decoded weights in the panel of that thread number, which must be this thread's own.
    void multiply_panels(const ReadySlice &slice, const RowUse *uses, int64_t n_use, int part, int parts) {
        ggml_compute_params as_part = *params_;
        as_part.ith = part;
        as_part.nth = parts;
        ggml_tensor weights = *weights_;
        weights.data = const_cast<char *>(slice.data);
        ggml_tensor op = *op_;
        op.src[0] = &weights;
        const auto panel_bytes = static_cast<int64_t>(ggml_cpu_iqp_scratch_size(op_));
        ggml_compute_forward_mul_mat_id_iqp(&as_part, &op, 0, n_use, reinterpret_cast<const int32_t *>(uses),
                                            panel_memory_ + (params_->ith - part) * panel_bytes);
    }

    ggml_compute_params *params_;
    ggml_tensor *op_;
    const ggml_tensor *weights_;
    const ggml_tensor *input_;
    const ggml_tensor *ids_;
    const ExpertWeights &expert_weights_;
    OpScratch &scratch_;
    ExpertStore &store_;
    const ggml_type_traits_cpu *traits_;
    uint32_t chunks_per_slice_;
    bool quantised_;
    bool panels_;
    size_t input_row_bytes_ = 0;
    uint32_t *row_begin_ = nullptr;
    uint32_t *row_fill_ = nullptr;
    RowUse *rows_ = nullptr;
    char *panel_memory_ = nullptr;
};

} // namespace

size_t mul_mat_id_work_size(int n_threads, const ggml_tensor *op) { return work_layout(n_threads, op).total; }

void mul_mat_id(ggml_compute_params *params, ggml_tensor *op) {
    LARDER_CHECK(op->src[0]->extra != nullptr);
    Run(params, op)();
}

} // namespace larder

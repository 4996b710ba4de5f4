#include "runtime/fixed_bytes.h"

#include "base/bytes.h"
#include "runtime/params.h"
#include "runtime/resident_weights.h"
#include "text/text.h"

#include "ggml-cpu.h"
#include "ggml.h"

#include <algorithm>

namespace larder {

namespace {

// Memory that no other item counts: parts of llama.cpp and of the C library that grow after the measurement.
constexpr uint64_t slack_bytes = MiB;
constexpr uint64_t thread_bytes = 256 * KiB;     // touched part of the stack and heap of one compute thread
constexpr uint64_t candidate_bytes = 3 * 12 + 4; // the sampler's copies of {token, logit, p}, and a copy of the logit

constexpr uint64_t cell_bytes_least = 48;  // llama.cpp's list of KV cells: about 50 measured
constexpr uint64_t token_bytes_least = 24; // the context's lists of all tokens: up to 36 measured

// The huge pages at both ends of an aliased tensor's allocation also hold other data.
constexpr uint64_t aliased_edges_bytes = 4 * MiB;

uint64_t above(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

// llama.cpp keeps the graph with which it reserves memory, a second graph with which it computes, and the scheduler's
// copies. Only the first is measured. For graphs of 1.5 to 11 MiB the others took 1.2 to 1.5 times as much as the first
// (tests/gates/plan_test.cpp).
uint64_t computed_graph_bytes(uint64_t of_context, uint32_t ctx_tokens, uint64_t n_vocab) {
    const uint64_t lists = uint64_t{ctx_tokens} * cell_bytes_least + n_vocab * token_bytes_least;
    return above(of_context, lists) * 3 / 2;
}

// Memory that tokenising takes for a text that fills the context, at 6 bytes per token. Most texts have 3 to 5.
uint64_t text_bytes(uint32_t ctx_tokens) { return tokenise_bytes_max(uint64_t{ctx_tokens} * 6); }

// ggml's CPU work buffer, which no memory breakdown lists: the activations of the largest operation, converted to the
// type that the weights are multiplied with. F32 weights need no conversion.
uint64_t work_bytes(const ModelLayout &layout, uint32_t ubatch_tokens) {
    uint64_t token_bytes_max = 0;
    for (const TensorInfo &tensor : layout.tensors) {
        const ggml_type input = ggml_get_type_traits_cpu(static_cast<ggml_type>(tensor.type))->vec_dot_type;
        if (input != GGML_TYPE_F32) {
            const bool per_expert = tensor.kind == TensorKind::routed_expert;
            const uint64_t rows = per_expert ? std::max(1U, layout.n_expert_used) : 1;
            token_bytes_max = std::max(token_bytes_max, rows * ggml_row_size(input, tensor.shape[0]));
        }
    }
    return token_bytes_max * ubatch_tokens;
}

// Buffer in which one thread repacks rows.
uint64_t repack_bytes(const ModelLayout &layout) {
    uint64_t row_bytes_max = 0;
    for (const TensorInfo &tensor : layout.tensors) {
        row_bytes_max =
            std::max<uint64_t>(row_bytes_max, ggml_row_size(static_cast<ggml_type>(tensor.type), tensor.shape[0]));
    }
    return 16 * row_bytes_max;
}

} // namespace

FixedBytes fixed_of_model(const ModelLayout &layout, Kernels kernels, const ModelFacts &model,
                          const ContextSpec &resolved, const ContextFacts &context) {
    FixedBytes fixed;
    fixed.resident = context.resident_bytes - above(model.aliased_bytes, aliased_edges_bytes);
    fixed.kv = context.kv_bytes;
    fixed.compute =
        context.compute_bytes + output_bytes(resolved, model.n_vocab) + work_bytes(layout, resolved.ubatch_tokens);
    if (repacks_resident(kernels)) {
        const uint64_t threads = std::max(resolved.threads, resolved.threads_batch);
        fixed.compute += (repacks_experts(kernels) ? threads : 1) * repack_bytes(layout);
    }
    fixed.overhead = context.process_bytes +
                     computed_graph_bytes(context.process_bytes, resolved.ctx_tokens, model.n_vocab) +
                     resolved.sequences * model.n_vocab * candidate_bytes;
    fixed.transient = text_bytes(resolved.ctx_tokens);
    return fixed;
}

FixedBytes fixed_of_process(std::span<const FixedBytes> models, const HeldBytes &held, uint32_t threads) {
    FixedBytes all;
    for (const FixedBytes &model : models) {
        all.resident += model.resident;
        all.kv += model.kv;
        all.compute += model.compute;
        all.overhead += model.overhead;
        all.transient = std::max(all.transient, model.transient); // only one text is tokenised at a time
    }
    // The read buffers and the metadata are freed before the last context and its overhead exist. Where they take more
    // than that context does, they may use the memory of its compute buffers, which do not exist yet either.
    const uint64_t loading = std::min(ResidentWeights::buffer_bytes(), all.resident) + held.metadata_bytes;
    const FixedBytes &last = models.back();
    all.compute = std::max(all.compute, all.compute - last.compute + above(loading, last.kv + last.overhead));
    all.overhead += above(held.process_bytes, held.metadata_bytes) + slack_bytes + threads * thread_bytes;
    return all;
}

} // namespace larder

#include "engine/measure.h"

#include "base/bytes.h"
#include "compute/compute.h"
#include "engine/llama_handles.h"
#include "engine/llama_log.h"
#include "engine/params.h"
#include "engine/resident_weights.h"

#include "llama-ext.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <utility>

namespace larder {

namespace {

// What the process holds besides the parts counted by name: pieces of llama.cpp and of the C library that grow after
// the measurement (graph metadata, thread stacks, the sampler's candidates are counted below by size).
constexpr uint64_t slack_bytes = 3 * MiB;
constexpr uint64_t thread_bytes = 256 * KiB;     // touched part of a compute thread's stack and arena
constexpr uint64_t candidate_bytes = 3 * 12 + 4; // sampler's copies of {token, logit, p}, and a logit's copy

constexpr uint64_t cell_bytes = 64; // of llama.cpp's list of KV cells, measured some 50
constexpr uint64_t cell_bytes_least = 48;
constexpr uint64_t tokenise_bytes = 64; // llama.cpp's tokenizers take some 60 bytes for each of the text

// What tokenising the longest text takes.
uint64_t text_bytes(uint32_t ctx_tokens) { return uint64_t{ctx_tokens} * text_bytes_per_token * tokenise_bytes; }

// ggml's CPU work memory, which belongs to no breakdown: the largest op's activations, quantised to 9/8 bytes an
// element at most 4 bytes where the weights are floats.
uint64_t work_bytes(const ModelLayout &layout, const EngineOptions &resolved) {
    uint64_t row_elements_max = 0;
    for (const TensorInfo &tensor : layout.tensors) {
        const bool per_expert = tensor.kind == TensorKind::routed_expert;
        const uint64_t rows = per_expert ? std::max(1U, layout.n_expert_used) : 1;
        row_elements_max = std::max(row_elements_max, static_cast<uint64_t>(tensor.shape[0]) * rows);
    }
    return row_elements_max * resolved.ubatch_tokens * 9 / 8;
}

// What a thread repacks rows with.
uint64_t repack_bytes(const ModelLayout &layout) {
    uint64_t row_bytes_max = 0;
    for (const TensorInfo &tensor : layout.tensors) {
        row_bytes_max =
            std::max<uint64_t>(row_bytes_max, ggml_row_size(static_cast<ggml_type>(tensor.type), tensor.shape[0]));
    }
    return 16 * row_bytes_max;
}

FixedBytes sum_of(const llama_memory_breakdown &breakdown) {
    FixedBytes fixed;
    for (const auto &[type, part] : breakdown) {
        if (type != expert_buffer_type()) {
            fixed.resident += part.model;
        }
        fixed.kv += part.context;
        fixed.compute += part.compute;
    }
    return fixed;
}

} // namespace

void check_context_can_be_measured(const EngineOptions &resolved, const Machine &machine) {
    if (!resolved.wishes.budget_bytes && !machine.ulimit.empty()) {
        return; // it has been measured already, to know what the limit leaves
    }
    const uint64_t budget = resolved.wishes.budget_bytes.value_or(machine.usable_bytes);
    const uint64_t cells = uint64_t{resolved.ctx_tokens} * cell_bytes;
    // A list that is a small part of the budget is not what is wrong with it: the plan then says what is.
    if (cells > budget / 8 && process_memory().rss_bytes + cells > budget) {
        throw Error(ErrorKind::budget,
                    fmt::format("a context of {} tokens (-c) does not fit into a budget of {}", resolved.ctx_tokens,
                                format_bytes(budget)),
                    "lower -c or raise --ram");
    }
}

Measurement measure(const ModelLayout &layout, Kernels kernels, ggml_backend_buffer_type *experts) {
    const Placement experts_away;
    llama_model_params params = model_params(repacks_resident(kernels));
    params.tensor_buft_overrides = experts_away.overrides();
    params.no_alloc = true;
    params.load_mode = LLAMA_LOAD_MODE_NONE; // nothing is mapped
    take_llama_errors();
    // llama.cpp's own loader, as it checks every tensor against the model's settings; llama_model_init_from_user()
    // believes the settings, and a graph built on wrong ones ends the process.
    ModelHandle model(llama_model_load_from_file(layout.files.front().c_str(), params));
    if (model == nullptr) {
        throw llama_refused(ErrorKind::model,
                            fmt::format("{}: llama.cpp does not accept the model", layout.files.front()),
                            "check that the file is complete and its architecture is one llama.cpp knows");
    }
    Measurement measured;
    measured.placement = std::make_unique<Placement>(model.get(), experts);
    measured.kernels = kernels;
    measured.model = std::move(model);
    return measured;
}

FixedBytes measure_context(const Measurement &measured, const ModelLayout &layout, const EngineOptions &resolved) {
    take_llama_errors();
    const ContextHandle context(llama_init_from_model(measured.model.get(), context_params(resolved)));
    if (context == nullptr) {
        throw llama_refused(ErrorKind::engine, "llama.cpp does not accept the context",
                            "check -c, --cache-type-k, --cache-type-v and -fa");
    }
    FixedBytes fixed = sum_of(llama_get_memory_breakdown(context.get()));
    const uint64_t threads = std::max(resolved.threads, resolved.threads_batch);
    const auto n_vocab = static_cast<uint64_t>(llama_vocab_n_tokens(llama_model_get_vocab(measured.model.get())));
    fixed.compute += output_bytes(resolved, n_vocab) + work_bytes(layout, resolved);
    if (repacks_resident(measured.kernels)) {
        fixed.compute += (repacks_experts(measured.kernels) ? threads : 1) * repack_bytes(layout);
    }
    // What weights are read with is gone before the caches and compute buffers come, and takes no more than they do.
    const uint64_t loading = ResidentWeights::buffer_bytes();
    fixed.compute = std::max(fixed.compute, loading - std::min(loading, fixed.kv));
    // The vocabulary, the metadata and the code are in RAM right now, and nothing else is.
    fixed.overhead = process_memory().rss_bytes + slack_bytes + threads * thread_bytes +
                     resolved.sequences * n_vocab * candidate_bytes;
    fixed.passing = text_bytes(resolved.ctx_tokens);
    return fixed;
}

uint64_t overhead_with_context(const ModelLayout &layout, uint64_t overhead_bytes, uint32_t measured_ctx_tokens,
                               uint32_t ctx_tokens) {
    uint64_t cells = 0; // of the tokens between the two, which are in what was measured or will come to it
    if (ctx_tokens > measured_ctx_tokens) {
        const uint64_t lists = layout.sliding_window > 0 ? 2 : 1; // windowed layers may have one of their own
        cells = lists * (ctx_tokens - measured_ctx_tokens) * cell_bytes;
    } else if (!layout.full_attention_layers.empty()) {
        cells = (measured_ctx_tokens - ctx_tokens) * cell_bytes_least;
    }
    return ctx_tokens > measured_ctx_tokens ? overhead_bytes + cells : overhead_bytes - cells;
}

} // namespace larder

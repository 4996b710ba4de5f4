#include "engine/measure.h"

#include "base/bytes.h"
#include "compute/compute.h"
#include "engine/llama_handles.h"
#include "engine/llama_log.h"
#include "engine/params.h"
#include "engine/resident_weights.h"

#include "llama-ext.h"
#include "llama-model.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace larder {

namespace {

// What the process holds besides the parts counted by name: pieces of llama.cpp and of the C library that grow after
// the measurement (graph metadata, thread stacks, the sampler's candidates are counted below by size).
constexpr uint64_t slack_bytes = MiB;
constexpr uint64_t thread_bytes = 256 * KiB;     // touched part of a compute thread's stack and arena
constexpr uint64_t candidate_bytes = 3 * 12 + 4; // sampler's copies of {token, logit, p}, and a logit's copy

constexpr uint64_t cell_bytes = 64; // of llama.cpp's list of KV cells, measured some 50
constexpr uint64_t cell_bytes_least = 48;
constexpr uint64_t token_bytes_least = 24; // of lists of all tokens that a context has, measured up to 36
constexpr uint64_t tokenise_bytes = 64;    // llama.cpp's tokenizers take some 60 bytes for each of the text

// llama.cpp keeps the graph that it reserved memory with, which is measured, and another one that it computes with, and
// the scheduler its copies. Of graphs of 1.5 to 11 MiB the others took 1.2 to 1.5 times the first
// (tests/gates/plan_test.cpp).
uint64_t computed_graph_bytes(uint64_t of_context, uint32_t ctx_tokens, uint64_t n_vocab) {
    const uint64_t lists = uint64_t{ctx_tokens} * cell_bytes_least + n_vocab * token_bytes_least;
    return (of_context - std::min(of_context, lists)) * 3 / 2;
}

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

// Huge pages at both ends of what is allocated for the second one belong to others too.
constexpr uint64_t aliased_edges_bytes = 4 * MiB;

// Of tensors that are there twice in one place: ResidentWeights gives them one memory.
uint64_t aliased_bytes(const llama_model *model) {
    uint64_t bytes = 0;
    std::set<std::pair<std::string, ggml_backend_buffer_type_t>> seen;
    for (const auto &[name, tensor] : llama_internal_get_tensor_map(model)) {
        ggml_backend_buffer_type_t place = ggml_backend_buffer_get_type(tensor->buffer);
        if (place != expert_buffer_type() && !seen.emplace(name, place).second) {
            bytes += ggml_nbytes(tensor);
        }
    }
    return bytes;
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

void check_context_can_be_measured(uint32_t ctx_tokens, uint64_t most_bytes) {
    const uint64_t cells = uint64_t{ctx_tokens} * cell_bytes;
    // A list that is a small part of the budget is not what is wrong with it: the plan then says what is.
    if (cells > most_bytes / 8 && process_memory().rss_bytes + cells > most_bytes) {
        throw Error(
            ErrorKind::budget,
            fmt::format("a context of {} tokens (-c) does not fit into {}", ctx_tokens, format_bytes(most_bytes)),
            {{RemedyKind::shorter_context, "lower -c"}, {RemedyKind::larger_budget, "raise --ram"}});
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
    measured.aliased_bytes = aliased_bytes(model.get());
    measured.model = std::move(model);
    malloc_trim(0);
    measured.rss_bytes = process_memory().rss_bytes;
    return measured;
}

FixedBytes measure_context(const Measurement &measured, const ModelLayout &layout, const EngineOptions &resolved,
                           const HeldBefore &held) {
    take_llama_errors();
    malloc_trim(0); // of the context before
    const uint64_t without_context = process_memory().rss_bytes;
    const ContextHandle context(llama_init_from_model(measured.model.get(), context_params(resolved)));
    if (context == nullptr) {
        throw llama_refused(ErrorKind::engine, "llama.cpp does not accept the context",
                            "check -c, --cache-type-k, --cache-type-v and -fa");
    }
    FixedBytes fixed = sum_of(llama_get_memory_breakdown(context.get()));
    fixed.resident -= measured.aliased_bytes - std::min(measured.aliased_bytes, aliased_edges_bytes);
    const uint64_t threads = std::max(resolved.threads, resolved.threads_batch);
    const auto n_vocab = static_cast<uint64_t>(llama_vocab_n_tokens(llama_model_get_vocab(measured.model.get())));
    fixed.compute += output_bytes(resolved, n_vocab) + work_bytes(layout, resolved);
    if (repacks_resident(measured.kernels)) {
        fixed.compute += (repacks_experts(measured.kernels) ? threads : 1) * repack_bytes(layout);
    }
    const uint64_t with_context = process_memory().rss_bytes;
    const uint64_t of_context = with_context - std::min(with_context, without_context);
    const uint64_t with_it = of_context + computed_graph_bytes(of_context, resolved.ctx_tokens, n_vocab) +
                             resolved.sequences * n_vocab * candidate_bytes;
    fixed.overhead =
        held.rss_bytes - std::min(held.metadata_bytes, held.rss_bytes) + with_it + slack_bytes + threads * thread_bytes;
    // What weights are read with, and the metadata, are gone before a context and what comes with it; they take no more
    // than these do.
    const uint64_t loading = std::min(ResidentWeights::buffer_bytes(), fixed.resident) + held.metadata_bytes;
    fixed.compute = std::max(fixed.compute, loading - std::min(loading, fixed.kv + with_it));
    fixed.transient = text_bytes(resolved.ctx_tokens);
    return fixed;
}

} // namespace larder

// measure.h — what llama.cpp will allocate for a model and a context, learned without allocating it (private to
// engine).
#pragma once

#include "engine/engine.h"
#include "engine/llama_handles.h"
#include "engine/placement.h"

#include <memory>

namespace larder {

struct Measurement {
    ModelHandle model; // without memory for its tensors
    Kernels kernels = Kernels::plain;
    std::unique_ptr<Placement> placement;
    uint64_t aliased_bytes = 0; // of tensors that share the memory of another: addresses that nothing touches
    uint64_t rss_bytes = 0;     // of this process with it: the code, the vocabulary and the metadata
};

// What the process holds without a context.
struct HeldBefore {
    uint64_t rss_bytes = 0;      // with a model that has no memory for its tensors
    uint64_t metadata_bytes = 0; // of that, what ModelLayout::metadata takes, which go when the weights are loaded
};

// Builds the model with llama.cpp's no_alloc, and sees where it places each tensor with these kernels. Takes some tens
// of milliseconds and the memory of the vocabulary. The placement has experts in `experts`. Throws Error(model) with
// llama.cpp's reason if it does not accept the model, Error(engine) if it uses a buffer type that larder cannot fill.
Measurement measure(const ModelLayout &layout, Kernels kernels,
                    ggml_backend_buffer_type *experts = expert_buffer_type());

// Builds a context for it with llama.cpp's no_alloc and reads its memory breakdown. `resolved` has a ubatch. The
// overhead is what the process holds without a context, and what this one adds: it does not depend on what was measured
// before. Throws Error(engine) with llama.cpp's reason if it does not accept the context, and what
// refuse_what_cannot_generate() throws.
FixedBytes measure_context(const Measurement &measured, const ModelLayout &layout, const EngineOptions &resolved,
                           const HeldBefore &held);

// The measurement itself makes llama.cpp's list of KV cells, some 64 bytes a token. Throws Error(budget) for a context
// so long that this, with what the process holds already, is more than `most_bytes`.
void check_context_can_be_measured(uint32_t ctx_tokens, uint64_t most_bytes);

// Texts of more bytes than this for each token of the context are refused before they are tokenised; the plan holds
// what tokenising that much takes.
inline constexpr uint32_t text_bytes_per_token = 24;

} // namespace larder

// params.h — a ContextSpec in llama.cpp's terms, resolved against a model (private to runtime and the lab).
#pragma once

#include "runtime/llama_handles.h"
#include "runtime/spec.h"

#include <string>

namespace larder {

// The spec with every 0-for-default replaced, but for the ubatch, which stays 0 where the plan is to choose it. Throws
// Error(usage) for values that cannot be.
ContextSpec resolve(const ContextSpec &spec, uint64_t model_ctx_tokens);

// A resolved spec with this ubatch, and the batch that goes with it.
ContextSpec with_ubatch(const ContextSpec &resolved, uint32_t ubatch_tokens);

// Parameters for a model on the CPU. With `repack` llama.cpp's own loaders repack what they do by default.
llama_model_params model_params(bool repack);

llama_context_params context_params(const ContextSpec &resolved);

// A context as the spec says, for the model in `file`. Throws Error(engine) with llama.cpp's reason, and what
// refuse_what_cannot_generate() throws.
ContextHandle make_context(llama_model *model, const ContextSpec &resolved, const std::string &file);

// Bytes of the buffer llama.cpp keeps logits in, which its memory breakdown leaves out.
uint64_t output_bytes(const ContextSpec &resolved, uint64_t n_vocab);

} // namespace larder

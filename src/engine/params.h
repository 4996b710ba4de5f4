// params.h — EngineOptions in llama.cpp's terms, resolved against a model (private to engine).
#pragma once

#include "engine/engine.h"
#include "engine/llama_handles.h"

namespace larder {

// The options with every 0-for-default replaced, but for the ubatch, which stays 0 where the plan is to choose it.
// Throws Error(usage) for values that cannot be.
EngineOptions resolve(const EngineOptions &options, uint64_t model_ctx_tokens);

// Resolved options with this ubatch, and the batch that goes with it.
EngineOptions with_ubatch(const EngineOptions &resolved, uint32_t ubatch_tokens);

// Parameters for a model on the CPU. With `repack` llama.cpp's own loaders repack what they do by default.
llama_model_params model_params(bool repack);

llama_context_params context_params(const EngineOptions &resolved);

// Bytes of the buffer llama.cpp keeps logits in, which its memory breakdown leaves out.
uint64_t output_bytes(const EngineOptions &resolved, uint64_t n_vocab);

} // namespace larder

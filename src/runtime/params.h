// params.h — converts a ContextSpec to llama.cpp's parameters, resolved for a model (private to runtime and the lab).
#pragma once

#include "runtime/llama_handles.h"
#include "runtime/spec.h"

#include <string>

namespace larder {

// The spec with each 0 that means "default" replaced, except a ubatch of 0, which the plan chooses. Throws Error(usage)
// for impossible values.
ContextSpec resolve(const ContextSpec &spec, uint64_t model_ctx_tokens);

// The resolved spec with this ubatch, and a batch size that fits it.
ContextSpec with_ubatch(const ContextSpec &resolved, uint32_t ubatch_tokens);

// Parameters for a model on the CPU. With `repack`, llama.cpp's own loader repacks the tensors that it repacks by
// default.
llama_model_params model_params(bool repack);

llama_context_params context_params(const ContextSpec &resolved);

// Makes a context for the model in `file`. Throws Error(engine) with llama.cpp's reason, and the errors of
// refuse_what_cannot_generate().
ContextHandle make_context(llama_model *model, const ContextSpec &resolved, const std::string &file);

// Bytes of the buffer in which llama.cpp keeps logits. Its memory breakdown does not include it.
uint64_t output_bytes(const ContextSpec &resolved, uint64_t n_vocab);

} // namespace larder

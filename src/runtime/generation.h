// generation.h — models that cannot generate text token by token (private to runtime).
#pragma once

#include <string>

struct llama_context;

namespace larder {

// Throws Error(model) if the context's model cannot predict a token from those before it: a diffusion model, an
// encoder, an encoder with a decoder. The error says what the model in `file` is, and which program of llama.cpp runs
// it. llama_decode() on such a context ends the process. A model without memory for its weights suffices.
void refuse_what_cannot_generate(const llama_context *context, const std::string &file);

} // namespace larder

// generation.h — refuses models that cannot generate text token by token (private to runtime).
#pragma once

#include <string>

struct llama_context;

namespace larder {

// Throws Error(model) if the context's model cannot predict a token from the previous ones: a diffusion model, an
// encoder, or an encoder-decoder. llama_decode() would end the process on such a context. The error names the type of
// the model in `file` and the program of llama.cpp that runs it. The model needs no memory for its weights.
void refuse_what_cannot_generate(const llama_context *context, const std::string &file);

} // namespace larder

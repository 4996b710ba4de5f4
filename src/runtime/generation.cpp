#include "runtime/generation.h"

#include "base/error.h"

#include "llama-model.h"
#include "llama.h"

#include <fmt/format.h>

namespace larder {

void refuse_what_cannot_generate(const llama_context *context, const std::string &file) {
    const llama_model *model = llama_get_model(context);
    const auto refuse = [&](const char *kind, const char *remedy) {
        throw Error(ErrorKind::model, fmt::format("{}: {} is {}", file, model->arch_name(), kind), remedy);
    };
    if (llama_model_is_diffusion(model)) {
        refuse("a diffusion model, which fills in a whole text at once: larder generates token by token",
               "use llama.cpp's llama-diffusion-cli");
    }
    // Memory of previous tokens: a KV cache or a recurrent state.
    const bool has_memory = llama_get_memory(context) != nullptr;
    if (!has_memory || !llama_model_has_decoder(model) || !model->hparams.causal_attn) {
        refuse("an encoder, which gives embeddings and no next token: larder generates token by token",
               "use llama.cpp's llama-embedding");
    }
    if (llama_model_has_encoder(model)) {
        refuse("an encoder with a decoder: larder runs decoders only", "use llama.cpp's llama-completion");
    }
}

} // namespace larder

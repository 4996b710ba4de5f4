// open_model_impl.h — the members of an OpenModel (private to session).
#pragma once

#include "session/open_model.h"

#include "llama.h"

#include <atomic>
#include <memory>

namespace larder {

class OpenModel::Impl {
  public:
    Impl(std::unique_ptr<ModelHost> of, double ms) : host(std::move(of)), load_ms(ms) {}

    [[nodiscard]] const llama_vocab *vocab() const { return llama_model_get_vocab(host->model()); }
    [[nodiscard]] llama_context *context() const { return host->context().get(); }
    [[nodiscard]] const Tokenizer &tokenizer() const; // made at its first use
    [[nodiscard]] uint64_t tokenise_bytes_max() const;
    void refuse_text_too_long(uint64_t bytes) const; // throws Error(usage)

    const std::unique_ptr<ModelHost> host;
    const double load_ms;
    mutable std::unique_ptr<const Tokenizer> tokenizer_made;

    // Written by the session's thread, read by figures() on any thread.
    std::atomic<uint64_t> prompt_tokens{0};
    std::atomic<uint64_t> decode_tokens{0};
    std::atomic<double> prompt_ms{0};
    std::atomic<double> decode_ms{0};
    std::atomic<double> ttft_ms{0};
};

} // namespace larder

// session.h — one conversation: a sequence of tokens, the cached part of it, and its sampler.
//
// Threads: one, the thread of the OpenModel. Errors: Error(io) if an expert could not be read, Error(usage) if the
// context is full. After a failure or a stop, the positions computed before it stay cached where the model's memory can
// be cut (attention); a model with recurrent state starts again from an empty cache. The session stays usable.
// Units: tokens.
#pragma once

#include "session/open_model.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace larder {

// llama.cpp's sampling parameters under its names, with its defaults.
struct SamplingOptions {
    uint32_t seed = 0xFFFFFFFF; // random
    int32_t top_k = 40;
    float top_p = 0.95F;
    float min_p = 0.05F;
    float typical_p = 1.0F;
    float temperature = 0.8F;   // <= 0: greedy
    int32_t repeat_last_n = 64; // -1, or a value beyond the context: the whole context
    float repeat_penalty = 1.0F;
    float presence_penalty = 0.0F;
    float frequency_penalty = 0.0F;
    bool ignore_eos = false;
    std::string grammar; // GBNF that check_grammar() accepts (text/grammar.h); may be empty
};

// At most one Session per OpenModel at a time. The OpenModel must outlive it.
class Session {
  public:
    Session(OpenModel &model, const SamplingOptions &sampling);
    ~Session();
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    // Makes `tokens` the content of the session. A cached common prefix is reused. At least the last token is
    // evaluated, so that logits() is valid. Throws Error(usage) if the tokens do not fit into the context. Returns
    // false if stopped; n_token() is then the number of cached tokens.
    bool prefill(std::span<const Token> tokens);
    // Evaluates one more token. Returns false if stopped.
    bool decode(Token token);
    // Removes the last `n` tokens. There are no logits until the next evaluation. The sampler keeps its history.
    // Returns false and changes nothing if the model cannot remove a token (recurrent state) or if none would be left.
    bool rewind(uint32_t n);
    // Chooses the next token from the latest logits.
    Token sample();

    [[nodiscard]] uint32_t n_token() const; // number of tokens in the context
    // Logits after the latest call. With logits_for_all: of the i-th token that the latest prefill() or decode()
    // evaluated. Otherwise i must be 0, and they are the last token's. n_vocab floats, valid until the next call.
    [[nodiscard]] std::span<const float> logits(uint32_t i = 0) const;

    // With logits_for_all, the logits of a prefill exist only batch by batch. Called after each batch, with the
    // position of its first token and the number of its tokens.
    std::function<void(uint32_t first, uint32_t count)> on_batch;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace larder

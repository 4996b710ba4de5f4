// session.h — one conversation: a sequence of tokens, what is cached of it, its sampler.
//
// Threads: one, that of the OpenModel. Errors: Error(io) when an expert could not be read, Error(usage) where the
// context is full. What was computed before a failure or a stop stays cached where the model's memory can be cut
// (attention); a model with recurrent state begins anew. The next call works.
// Units: tokens.
#pragma once

#include "session/open_model.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace larder {

// llama.cpp's sampling parameters under its names; the defaults are its own.
struct SamplingOptions {
    uint32_t seed = 0xFFFFFFFF; // random
    int32_t top_k = 40;
    float top_p = 0.95F;
    float min_p = 0.05F;
    float typical_p = 1.0F;
    float temperature = 0.8F;   // <= 0: greedy
    int32_t repeat_last_n = 64; // -1, and more than the context: the context
    float repeat_penalty = 1.0F;
    float presence_penalty = 0.0F;
    float frequency_penalty = 0.0F;
    bool ignore_eos = false;
    std::string grammar; // GBNF that check_grammar() accepts (text/grammar.h), empty for none
};

// At most one Session per OpenModel at a time; the OpenModel must outlive it.
class Session {
  public:
    Session(OpenModel &model, const SamplingOptions &sampling);
    ~Session();
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    // Makes `tokens` the content of the session. What is cached of a common prefix is kept; at least the last token is
    // evaluated, so that logits() are there. Throws Error(usage) if they do not fit into the context. Returns false if
    // stopped; n_token() says how many of them are cached then.
    bool prefill(std::span<const Token> tokens);
    // Evaluates one more token. False if stopped.
    bool decode(Token token);
    // Takes back the last `n` tokens, as if they had not been evaluated; there are no logits then until the next call.
    // What the sampler remembers stays.
    // False, and nothing has changed, where the model cannot forget a token (recurrent state) or none would be left.
    bool rewind(uint32_t n);
    // Chooses the next token from the latest logits.
    Token sample();

    [[nodiscard]] uint32_t n_token() const; // in the context
    // Logits after the latest call. With logits_for_all, of the i-th token that the latest prefill() or decode()
    // evaluated; otherwise i must be 0 and it is the last token's. n_vocab floats, valid until the next call.
    [[nodiscard]] std::span<const float> logits(uint32_t i = 0) const;

    // With logits_for_all a prefill's logits are only there batch by batch: called after each, with the position of its
    // first token and the number of them.
    std::function<void(uint32_t first, uint32_t count)> on_batch;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace larder

// greedy_walk.h — evaluates a prompt and greedy decode on a context, and computes a digest of all logits.
#pragma once

#include "base/error.h"
#include "runtime/step.h"
#include "support/some_tokens.h"

#include "common.h"
#include "llama.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace larder::test {

class GreedyWalk {
  public:
    explicit GreedyWalk(AttachedContext &context, llama_seq_id sequence = 0)
        : context_(context), sequence_(sequence),
          n_vocab_(static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context.get()))))) {}

    // In batches of llama_n_batch() tokens.
    void prefill(size_t n) {
        const std::vector<llama_token> tokens = some_tokens(n, static_cast<uint32_t>(n_vocab_));
        const size_t at_once = llama_n_batch(context_.get());
        for (size_t first = 0; first < n; first += at_once) {
            step(std::span(tokens).subspan(first, std::min(at_once, n - first)));
        }
    }
    void decode() { step({&next_, 1}); }

    // FNV-1a over the bits of the logits after each step.
    [[nodiscard]] uint64_t digest() const { return digest_; }

  private:
    void step(std::span<const llama_token> tokens) {
        llama_batch batch = llama_batch_init(static_cast<int32_t>(tokens.size()), 0, 1);
        for (size_t i = 0; i < tokens.size(); i++) {
            common_batch_add(batch, tokens[i], position_++, {sequence_}, i + 1 == tokens.size());
        }
        const StepResult result = context_.step(batch);
        llama_batch_free(batch);
        if (result.end != StepEnd::done || result.error) {
            throw std::runtime_error(result.error ? result.error->what() : "the step was stopped");
        }
        const float *logits = llama_get_logits_ith(context_.get(), -1);
        next_ = static_cast<llama_token>(std::max_element(logits, logits + n_vocab_) - logits);
        const auto *bytes = reinterpret_cast<const unsigned char *>(logits);
        for (size_t i = 0; i < n_vocab_ * sizeof(float); i++) {
            digest_ = (digest_ ^ bytes[i]) * 1099511628211ULL;
        }
    }

    AttachedContext &context_;
    llama_seq_id sequence_;
    size_t n_vocab_;
    llama_pos position_ = 0;
    llama_token next_ = 0;
    uint64_t digest_ = 14695981039346656037ULL;
};

} // namespace larder::test

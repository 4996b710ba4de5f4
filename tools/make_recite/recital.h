// recital.h — weights with which a model follows a trace.
//
// The embedding of token t is row t of a Hadamard matrix. Attention and experts add so little to it that the residual
// stream stays equal to that row in every layer; RMS norms do not change it. The router of a layer is Σ logits(t) ⊗ row
// t / d. So row t yields exactly logits(t), in which the recorded experts are the highest, in the recorded order. The
// output matrix maps row t to token t + 1, and the last row to the first token.
#pragma once

#include "hadamard.h"
#include "routing.h"
#include "weights.h"

#include <string_view>

namespace larder::make_recite {

class Recital {
  public:
    Recital(uint64_t seed, const Routing &routing, uint32_t embd);

    // Passes the tensor's bytes to `sink`, in order and in pieces of at most some MiB.
    void generate(const make_model::Tensor &tensor, const make_model::Sink &sink);

  private:
    void embedding(const make_model::Tensor &tensor, const make_model::Sink &sink);
    void output(const make_model::Tensor &tensor, const make_model::Sink &sink);
    void router(const make_model::Tensor &tensor, uint32_t layer, const make_model::Sink &sink);

    const Routing &routing_;
    Hadamard rows_;
    make_model::Weights random_;
};

// A type in which the embedding's values of ±1 are exact.
ggml_type embedding_type(ggml_type wanted);

} // namespace larder::make_recite

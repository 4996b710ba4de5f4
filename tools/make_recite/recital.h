// recital.h — weights with which a model walks a trace.
//
// The embedding of token t is row t of a Hadamard matrix. Attention and experts add so little to it that the residual
// stream stays that row, whatever the layer; RMS norms leave it alone. A layer's router is Σ logits(t) ⊗ row t / d, so
// that row t yields just logits(t), in which the recorded experts lead in the recorded order. The output matrix maps
// row t to token t + 1, and the last to the first.
#pragma once

#include "hadamard.h"
#include "routing.h"
#include "weights.h"

#include <string_view>

namespace larder::make_recite {

class Recital {
  public:
    Recital(uint64_t seed, const Routing &routing, uint32_t embd);

    // Hands the tensor's bytes to `sink`, in order and in pieces of some MiB at most.
    void generate(const make_model::Tensor &tensor, const make_model::Sink &sink);

  private:
    void embedding(const make_model::Tensor &tensor, const make_model::Sink &sink);
    void output(const make_model::Tensor &tensor, const make_model::Sink &sink);
    void router(const make_model::Tensor &tensor, uint32_t layer, const make_model::Sink &sink);

    const Routing &routing_;
    Hadamard rows_;
    make_model::Weights random_;
};

// The type in which the embedding's ±1 stay what they are.
ggml_type embedding_type(ggml_type wanted);

} // namespace larder::make_recite

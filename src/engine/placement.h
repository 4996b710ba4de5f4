// placement.h — into which type of buffer each of a model's tensors goes (private to engine).
#pragma once

#include "compute/compute.h"
#include "engine/llama_handles.h"
#include "layout/layout.h"

#include <string>
#include <vector>

namespace larder {

// llama.cpp's overrides, as it wants them, and the text they point to.
class Placement {
  public:
    Placement(); // experts to expert_buffer_type(), everything else plain
    // As stock llama.cpp placed the tensors of `model`, which it loaded with experts to expert_buffer_type(): matrices
    // that it repacks go to repack_buffer_type(), or to tied_buffer_type() if it keeps them plain as well. Throws
    // Error(engine) if it uses a buffer type that larder cannot fill. Experts go to `experts`.
    Placement(const llama_model *model, ggml_backend_buffer_type *experts);

    // Valid as long as this.
    [[nodiscard]] const llama_model_tensor_buft_override *overrides() const { return overrides_.data(); }

    Placement(const Placement &) = delete;
    Placement &operator=(const Placement &) = delete;

  private:
    void finish(ggml_backend_buffer_type *experts);

    std::string repacked_; // regular expressions, empty for no tensor
    std::string tied_;
    std::vector<llama_model_tensor_buft_override> overrides_;
};

// A regular expression for exactly these names, short where they differ in the layer's number only: llama.cpp compiles
// it anew for every tensor. Those of `others` it must not match.
std::string pattern_of_names(const std::vector<std::string> &names, const std::vector<std::string> &others);

} // namespace larder

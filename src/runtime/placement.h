// placement.h — into which type of buffer each of a model's tensors goes (private to runtime and the lab).
#pragma once

#include "compute/compute.h"
#include "layout/layout.h"
#include "runtime/llama_handles.h"

#include <string>
#include <vector>

namespace larder {

// Which tensors of a model are repacked, as regular expressions for their names; empty for none.
struct PlacePatterns {
    std::string repacked; // to repack_buffer_type()
    std::string tied;     // to tied_buffer_type()
};

// As stock llama.cpp placed the tensors of `model`, which it loaded with experts to expert_buffer_type(): matrices that
// it repacks are repacked, and tied if it keeps them plain as well. Throws Error(engine) if it uses a buffer type that
// larder cannot fill.
PlacePatterns places_of_stock(const llama_model *model);

// llama.cpp's overrides, as it wants them, and the text they point to.
class Placement {
  public:
    // Experts go to `experts`, what the patterns do not name stays plain.
    Placement(PlacePatterns patterns, ggml_backend_buffer_type *experts);
    Placement(const Placement &) = delete;
    Placement &operator=(const Placement &) = delete;

    // Valid as long as this.
    [[nodiscard]] const llama_model_tensor_buft_override *overrides() const { return overrides_.data(); }

  private:
    const PlacePatterns patterns_;
    std::vector<llama_model_tensor_buft_override> overrides_;
};

// A regular expression for exactly these names, short where they differ in the layer's number only: llama.cpp compiles
// it anew for every tensor. Those of `others` it must not match.
std::string pattern_of_names(const std::vector<std::string> &names, const std::vector<std::string> &others);

} // namespace larder

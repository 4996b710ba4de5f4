// placement.h — chooses the buffer type of each tensor of a model (private to runtime and the lab).
#pragma once

#include "compute/compute.h"
#include "layout/layout.h"
#include "runtime/llama_handles.h"

#include <string>
#include <vector>

namespace larder {

// The tensors that are repacked, as regular expressions for their names. An empty pattern matches none.
struct PlacePatterns {
    std::string repacked; // go to repack_buffer_type()
    std::string tied;     // go to tied_buffer_type()
};

// The places that stock llama.cpp chose for the tensors of `model`, which it loaded with experts in
// expert_buffer_type(). A matrix that it repacks is `repacked`, or `tied` if it also keeps a plain copy. Throws
// Error(engine) if it uses a buffer type that larder cannot fill.
PlacePatterns places_of_stock(const llama_model *model);

// llama.cpp's tensor overrides, and the strings that they point to.
class Placement {
  public:
    // Experts go to `experts`. Tensors that match no pattern stay plain.
    Placement(PlacePatterns patterns, ggml_backend_buffer_type *experts);
    Placement(const Placement &) = delete;
    Placement &operator=(const Placement &) = delete;

    // Valid as long as this object.
    [[nodiscard]] const llama_model_tensor_buft_override *overrides() const { return overrides_.data(); }

  private:
    const PlacePatterns patterns_;
    std::vector<llama_model_tensor_buft_override> overrides_;
};

// A regular expression that matches exactly `names` and none of `others`. Names that differ only in their layer number
// are merged, because llama.cpp compiles the expression again for each tensor.
std::string pattern_of_names(const std::vector<std::string> &names, const std::vector<std::string> &others);

} // namespace larder

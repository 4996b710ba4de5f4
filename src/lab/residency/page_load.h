// page_load.h — loads a model whose experts stay in a file mapping: decides for each tensor where its data comes from
// (private to lab/residency).
#pragma once

#include "compute/compute.h"
#include "lab/pager/pager.h"
#include "layout/layout.h"
#include "runtime/resident_weights.h"
#include "runtime/spec.h"

#include <string>

namespace larder {

class PageLoad {
  public:
    // All arguments must outlive the load; the experts and the pager must outlive the model.
    PageLoad(const ModelLayout &layout, Reader &reader, MappedExperts &experts, ExpertPager &pager)
        : layout_(layout), experts_(experts), pager_(pager), weights_(layout, reader) {}

    // Called by llama.cpp for every tensor that it creates: experts are bound to the mapping, the others are recorded.
    void add(ggml_tensor *tensor) noexcept;

    // Reads the other tensors. Throws Error(model) for an expert tensor that differs from the layout, Error(engine) for
    // one in a buffer that is not the mapping, and the errors of ResidentWeights::load().
    void load(const RuntimeOptions &options);

  private:
    [[nodiscard]] bool is_expert(const ggml_tensor *tensor) const;

    const ModelLayout &layout_;
    MappedExperts &experts_;
    ExpertPager &pager_;
    ResidentWeights weights_;
    std::string unbound_;     // the first expert tensor not in the layout
    std::string elsewhere_;   // the first expert tensor not in the mapping
    std::string buffer_type_; // its buffer type
};

} // namespace larder

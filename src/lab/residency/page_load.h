// page_load.h — where each tensor of a model goes whose experts stay in a file mapping (private to lab/residency).
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
    // All of them must outlive the load, the experts and the pager the model.
    PageLoad(const ModelLayout &layout, Reader &reader, MappedExperts &experts, ExpertPager &pager)
        : layout_(layout), experts_(experts), pager_(pager), weights_(layout, reader) {}

    // Called by llama.cpp for every tensor it builds: experts are bound to the mapping, the others noted.
    void add(ggml_tensor *tensor) noexcept;

    // Reads the others. Throws Error(model) for an expert that the file has otherwise, Error(engine) for one that lies
    // in a buffer which is not the mapping, and what ResidentWeights::load() throws.
    void load(const RuntimeOptions &options);

  private:
    [[nodiscard]] bool is_expert(const ggml_tensor *tensor) const;

    const ModelLayout &layout_;
    MappedExperts &experts_;
    ExpertPager &pager_;
    ResidentWeights weights_;
    std::string unbound_;     // the first expert tensor that the layout does not know
    std::string elsewhere_;   // the first that is not in the mapping
    std::string buffer_type_; // that one's
};

} // namespace larder

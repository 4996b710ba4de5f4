// slice_sources.h — the position of each slice on disk, and the request that reads it into a slot.
//
// Copies the data that reads need from the layout: 16 bytes per slice.
//
// Threads: immutable after construction.
#pragma once

#include "base/error.h"
#include "io/io.h"
#include "layout/layout.h"
#include "store/store.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace larder {

class SliceSources {
  public:
    explicit SliceSources(const ModelLayout &layout);

    [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(sources_.size()); }
    [[nodiscard]] uint32_t size_class(SliceIndex slice) const { return tensor_of(slice).size_class; }
    // The maximum number of slices that a batch can demand (of one tensor), and that it can demand together with the
    // following slices (of a MoE layer).
    [[nodiscard]] uint32_t slices_of_tensor_max() const { return slices_of_tensor_max_; }
    [[nodiscard]] uint32_t slices_of_layer_max() const { return slices_of_layer_max_; }

    // The request that reads the slice's window into the slot at `into`.
    [[nodiscard]] ReadRequest request(SliceIndex slice, char *into, uint64_t tag) const;
    // The offset of the slice in its window.
    [[nodiscard]] uint64_t skew(SliceIndex slice) const;
    // The error for a failed read of the slice.
    [[nodiscard]] Error read_error(SliceIndex slice, int errno_value) const;
    // The error for a read of the slice that did not finish within `time`.
    [[nodiscard]] Error timeout_error(SliceIndex slice, std::chrono::milliseconds time) const;

  private:
    struct Tensor {
        uint64_t slice_bytes = 0;
        uint32_t size_class = 0;
        uint32_t first_slice = 0;
        uint32_t layer = 0;
        Projection projection = Projection::gate;
    };
    struct Source {
        uint64_t offset = 0;
        uint32_t file = 0;
        uint32_t tensor = 0; // index into tensors_
    };

    [[nodiscard]] const Tensor &tensor_of(SliceIndex slice) const { return tensors_[sources_[slice].tensor]; }
    [[nodiscard]] Extent extent(SliceIndex slice) const;

    std::vector<std::string> files_;
    std::vector<Tensor> tensors_;
    std::vector<Source> sources_; // by slice
    uint32_t slices_of_tensor_max_ = 0;
    uint32_t slices_of_layer_max_ = 0;
};

} // namespace larder

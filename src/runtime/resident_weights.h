// resident_weights.h — reads the weights that stay in RAM (private to runtime and the lab).
//
// llama.cpp passes its tensors one by one while it builds the model (add()). load() then reads all of them in file
// order, in large aligned windows with several reads in flight, and copies them to their tensors. Experts between them
// are skipped. A tensor in a buffer for repacked weights is repacked as soon as it is complete.
#pragma once

#include "io/io.h"
#include "layout/layout.h"
#include "runtime/weight_reads.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

struct ggml_tensor;

namespace larder {

class ResidentWeights {
  public:
    // Both must outlive this object.
    ResidentWeights(const ModelLayout &layout, Reader &reader) : layout_(layout), reader_(reader) {}

    // Registers `tensor` for load(). llama.cpp calls this, so it must not throw: if the file lacks the tensor, or has
    // it with another shape or type, load() throws the error.
    void add(ggml_tensor *tensor) noexcept;

    // Reads all registered tensors. Throws Error(model) for an error that add() found, Error(io) if a read fails or if
    // no read finishes within `timeout` (0: no limit). `progress` (bytes done, bytes total) may be empty; its
    // exceptions are passed on.
    void load(const std::function<void(uint64_t, uint64_t)> &progress, std::chrono::milliseconds timeout);

    // Memory that load() uses until it returns.
    static uint64_t buffer_bytes();

  private:
    void note(ggml_tensor *tensor);
    [[nodiscard]] ggml_tensor *twin_of(const ggml_tensor *tensor) const;
    void ask_for_huge_pages() const;

    const ModelLayout &layout_;
    Reader &reader_;
    std::vector<WeightPiece> pieces_;
    std::string complaint_; // first error that add() found
};

} // namespace larder

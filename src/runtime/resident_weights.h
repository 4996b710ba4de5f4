// resident_weights.h — reads the weights that stay in RAM (private to runtime and the lab).
//
// llama.cpp names its tensors one by one while it builds the model (add()); load() then reads all of them in file
// order, in large aligned windows, several under way at once, and copies them to their places. Experts between them are
// skipped. A tensor in a buffer for repacked weights is repacked as soon as it is there.
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
    // All must outlive this.
    ResidentWeights(const ModelLayout &layout, Reader &reader) : layout_(layout), reader_(reader) {}

    // Notes where `tensor` goes. A tensor the file does not have, or has in another shape or type, is an error that
    // load() throws: this is called by llama.cpp, which no exception may cross.
    void add(ggml_tensor *tensor) noexcept;

    // Reads everything that was added. Throws Error(model) for what add() found wrong, Error(io) for failed reads and
    // if none ends for `timeout` (0: no limit), and what `progress` throws, which may be empty.
    void load(const std::function<void(uint64_t, uint64_t)> &progress, std::chrono::milliseconds timeout);

    // Memory that load() uses for a while.
    static uint64_t buffer_bytes();

  private:
    void note(ggml_tensor *tensor);
    [[nodiscard]] ggml_tensor *twin_of(const ggml_tensor *tensor) const;
    void ask_for_huge_pages() const;

    const ModelLayout &layout_;
    Reader &reader_;
    std::vector<WeightPiece> pieces_;
    std::string complaint_; // the first thing add() found wrong
};

} // namespace larder

// resident_weights.h — reads the weights that stay in RAM (private to engine).
//
// llama.cpp names its tensors one by one while it builds the model (add()); load() then reads all of them in file
// order, in large aligned windows, several under way at once, and copies them to their places. Experts between them are
// skipped. A tensor in a buffer for repacked weights is repacked as soon as it is there.
#pragma once

#include "engine/engine.h"
#include "io/io.h"

#include <cstdint>
#include <string>
#include <vector>

struct ggml_tensor;

namespace larder {

class ResidentWeights {
  public:
    ResidentWeights(const ModelLayout &layout, Reader &reader) : layout_(layout), reader_(reader) {}

    // Notes where `tensor` goes. A tensor the file does not have, or has in another shape or type, is an error that
    // load() throws: this is called by llama.cpp, which no exception may cross.
    void add(ggml_tensor *tensor) noexcept;

    // Reads everything that was added. Throws Error(model) for what add() found wrong, Error(io) for failed reads.
    // `progress` may be empty.
    void load(const std::function<void(uint64_t, uint64_t)> &progress);

    // Memory that load() uses for a while.
    static uint64_t buffer_bytes();
    // Most reads that load() has in flight at once.
    static constexpr uint32_t reads_max = 8;

  private:
    struct Piece {
        Extent extent;
        ggml_tensor *tensor = nullptr;
        uint64_t missing = 0; // bytes that have not been copied to it yet
        const std::string *name = nullptr;
    };
    struct Chunk { // one read
        uint32_t file = 0;
        Window window;
        uint64_t needed = 0;    // bytes of the window that must arrive
        size_t first_piece = 0; // the first piece that reaches into it
    };

    [[nodiscard]] ggml_tensor *twin_of(const ggml_tensor *tensor) const noexcept;
    void ask_for_huge_pages() const;
    [[nodiscard]] std::vector<Chunk> chunks() const;
    void copy_out(const Chunk &chunk, const char *from);

    const ModelLayout &layout_;
    Reader &reader_;
    std::vector<Piece> pieces_;
    std::string complaint_; // the first thing add() found wrong
};

} // namespace larder

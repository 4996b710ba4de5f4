// weight_reads.h — the reads that fill the resident tensors (private to runtime).
//
// Units: bytes.
#pragma once

#include "io/io.h"
#include "layout/layout.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

struct ggml_tensor;

namespace larder {

struct WeightPiece { // one tensor
    Extent extent;
    ggml_tensor *tensor = nullptr;
    uint64_t missing = 0; // bytes not copied to the tensor yet
    const std::string *name = nullptr;
};

struct WeightRead {
    uint32_t file = 0;
    Window window;
    uint64_t needed = 0;    // bytes of the window that must be read
    size_t first_piece = 0; // first piece that overlaps the window
};

inline constexpr uint64_t weight_read_bytes_max = 1 << 20;
inline constexpr uint32_t weight_reads_at_once = 8;

// The reads that cover the pieces, with as few other bytes as windows allow. The pieces must be sorted by file and
// offset.
std::vector<WeightRead> weight_reads(std::span<const WeightPiece> pieces);

// Submits all reads and calls `arrived` on this thread with the bytes of each. Throws Error(io) if a read fails or if
// no read finishes within `timeout` (0: no limit). Exceptions of `arrived` end it too. When it returns, the kernel no
// longer writes into its memory, or that memory stays mapped for ever.
void read_weights(Reader &reader, const ModelLayout &layout, std::span<const WeightRead> reads,
                  std::chrono::milliseconds timeout,
                  const std::function<void(const WeightRead &read, const char *bytes)> &arrived);

} // namespace larder

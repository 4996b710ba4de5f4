// weight_reads.h — the reads that bring resident weights to their tensors (private to runtime).
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
    uint64_t missing = 0; // bytes that have not been copied to it yet
    const std::string *name = nullptr;
};

struct WeightRead {
    uint32_t file = 0;
    Window window;
    uint64_t needed = 0;    // bytes of the window that must arrive
    size_t first_piece = 0; // the first piece that reaches into it
};

inline constexpr uint64_t weight_read_bytes_max = 1 << 20;
inline constexpr uint32_t weight_reads_at_once = 8;

// Reads that cover the pieces, which are in the order of their files and offsets, and as little else as windows allow.
std::vector<WeightRead> weight_reads(std::span<const WeightPiece> pieces);

// Makes all reads and calls `arrived` for each, on this thread, with its bytes. Throws Error(io) for a read that fails,
// and if none ends for `timeout` (0: no limit); what `arrived` throws ends it too. In every case the kernel writes into
// none of its memory any more when this returns, or that memory is given up.
void read_weights(Reader &reader, const ModelLayout &layout, std::span<const WeightRead> reads,
                  std::chrono::milliseconds timeout,
                  const std::function<void(const WeightRead &read, const char *bytes)> &arrived);

} // namespace larder

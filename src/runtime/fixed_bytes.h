// fixed_bytes.h — memory that models and contexts need besides the arena, computed from llama.cpp's own figures
// (measure.h) and from tensor shapes (private to runtime).
//
// Units: bytes. Pure functions.
#pragma once

#include "layout/layout.h"
#include "plan/plan.h"
#include "runtime/measure.h"
#include "runtime/spec.h"

#include <cstdint>

namespace larder {

// Memory of the process with all models built and no context: code, vocabularies, metadata.
struct HeldBytes {
    uint64_t process_bytes = 0;
    // The part of process_bytes that ModelLayout::metadata takes; freed when the weights are loaded.
    uint64_t metadata_bytes = 0;
};

// Memory of one model and its context. `overhead` is what the two add to the process; `transient` is the memory for
// tokenising the longest text.
FixedBytes fixed_of_model(const ModelLayout &layout, Kernels kernels, const ModelFacts &model,
                          const ContextSpec &resolved, const ContextFacts &context);

// Memory of the process with all models: their sums, and what exists once per process.
FixedBytes fixed_of_process(std::span<const FixedBytes> models, const HeldBytes &held, uint32_t threads);

// A text of more bytes than this per token of the context is refused before it is tokenised. The plan includes the
// memory for tokenising a quarter of that; a longer text is tokenised if the reserve is large enough for it.
inline constexpr uint32_t text_bytes_per_token = 24;

} // namespace larder

// fixed_bytes.h — what models and contexts take whatever the arena is: from what llama.cpp said of them (measure.h) and
// what follows from shapes (private to runtime).
//
// Units: bytes. Pure functions.
#pragma once

#include "layout/layout.h"
#include "plan/plan.h"
#include "runtime/measure.h"
#include "runtime/spec.h"

#include <cstdint>

namespace larder {

// What the process holds with all of its models built and no context: code, vocabularies, metadata.
struct HeldBytes {
    uint64_t process_bytes = 0;
    uint64_t metadata_bytes = 0; // of that, what ModelLayout::metadata takes, which goes when the weights are loaded
};

// Of one model and its context. The overhead is what these add to the process; `transient` is what tokenising the
// longest text takes.
FixedBytes fixed_of_model(const ModelLayout &layout, Kernels kernels, const ModelFacts &model,
                          const ContextSpec &resolved, const ContextFacts &context);

// Of the process with all of them: sums, and what is there once.
FixedBytes fixed_of_process(std::span<const FixedBytes> models, const HeldBytes &held, uint32_t threads);

// Texts of more bytes than this for each token of the context are refused before they are tokenised; the plan holds
// what tokenising that much takes.
inline constexpr uint32_t text_bytes_per_token = 24;

} // namespace larder

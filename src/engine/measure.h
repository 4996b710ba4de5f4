// measure.h — what llama.cpp will allocate for a model and a context, learned without allocating it (private to
// engine).
#pragma once

#include "engine/engine.h"

namespace larder {

// Builds the model and the context with llama.cpp's no_alloc and reads its memory breakdown. Takes some tens of
// milliseconds and the memory of the vocabulary. Throws Error(model) with llama.cpp's reason if it does not accept the
// model, Error(engine) if it does not accept the context.
FixedBytes measure_fixed(const ModelLayout &layout, const EngineOptions &resolved);

} // namespace larder

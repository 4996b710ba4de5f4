// measure.h — measures what llama.cpp would allocate for a model and a context (private to runtime).
//
// llama.cpp builds both with no_alloc and reports how large its buffers would be. Its other memory (vocabulary, lists
// of cells, graphs) is really allocated, and is measured on the process. So these functions run in a child process:
// look.h.
//
// Units: bytes.
#pragma once

#include "layout/layout.h"
#include "machine/address_limits.h"
#include "runtime/llama_handles.h"
#include "runtime/placement.h"
#include "runtime/spec.h"

#include <cstdint>
#include <string>

namespace larder {

struct ModelFacts {
    PlacePatterns places;       // of the resident tensors, for these kernels
    uint64_t aliased_bytes = 0; // size of the tensors that share the memory of another: mapped, never touched
    uint64_t n_vocab = 0;
};

struct ContextFacts {
    uint64_t resident_bytes = 0; // of the model; includes the allocations of aliased tensors
    uint64_t kv_bytes = 0;
    uint64_t compute_bytes = 0;
    uint64_t process_bytes = 0; // memory that the context adds to the process
    IdleAddresses idle;         // of the process while it holds the context
};

// Builds the model without memory for its tensors, with experts in expert_buffer_type(). Throws Error(model) with
// llama.cpp's reason if llama.cpp refuses the file, Error(engine) if it uses a buffer type that larder cannot fill.
ModelHandle build_without_memory(const std::string &path, Kernels kernels);
ModelFacts model_facts(const llama_model *model);

// Builds a context without memory for its buffers. `resolved` must have a ubatch. Throws Error(engine) with llama.cpp's
// reason if llama.cpp refuses the context.
ContextFacts context_facts(llama_model *model, const ContextSpec &resolved, const std::string &file);

} // namespace larder

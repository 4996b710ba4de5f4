// measure.h — what llama.cpp allocates for a model and a context, learned without allocating it (private to runtime).
//
// llama.cpp builds both with no_alloc and says how large the buffers would be; what else it takes (vocabulary, lists of
// cells, graphs) it really takes, and is measured on the process. So these run in a process of their own: look.h.
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
    PlacePatterns places;       // of the resident tensors, with these kernels
    uint64_t aliased_bytes = 0; // of tensors that share the memory of another: addresses that nothing touches
    uint64_t n_vocab = 0;
};

struct ContextFacts {
    uint64_t resident_bytes = 0; // of the model; the allocations of aliased tensors are counted
    uint64_t kv_bytes = 0;
    uint64_t compute_bytes = 0;
    uint64_t process_bytes = 0; // what the process holds more with the context than without
    IdleAddresses idle;         // of the process with the context
};

// Builds the model without memory for its tensors, with experts in expert_buffer_type(). Throws Error(model) with
// llama.cpp's reason if it does not accept the file, Error(engine) if it uses a buffer type that larder cannot fill.
ModelHandle build_without_memory(const std::string &path, Kernels kernels);
ModelFacts model_facts(const llama_model *model);

// Builds a context without memory for it. `resolved` has a ubatch. Throws Error(engine) with llama.cpp's reason if it
// does not accept the context.
ContextFacts context_facts(llama_model *model, const ContextSpec &resolved, const std::string &file);

} // namespace larder

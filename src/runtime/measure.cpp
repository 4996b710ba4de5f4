#include "runtime/measure.h"

#include "base/error.h"
#include "compute/compute.h"
#include "machine/process_memory.h"
#include "runtime/llama_log.h"
#include "runtime/params.h"

#include "llama-ext.h"
#include "llama-model.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace larder {

namespace {

// Bytes of tensors that llama.cpp makes twice in one buffer. ResidentWeights gives both the same memory.
uint64_t aliased_bytes(const llama_model *model) {
    uint64_t bytes = 0;
    std::set<std::pair<std::string, ggml_backend_buffer_type_t>> seen;
    for (const auto &[name, tensor] : llama_internal_get_tensor_map(model)) {
        ggml_backend_buffer_type_t place = ggml_backend_buffer_get_type(tensor->buffer);
        if (place != expert_buffer_type() && !seen.emplace(name, place).second) {
            bytes += ggml_nbytes(tensor);
        }
    }
    return bytes;
}

} // namespace

ModelHandle build_without_memory(const std::string &path, Kernels kernels) {
    const Placement experts_away({}, expert_buffer_type());
    llama_model_params params = model_params(repacks_resident(kernels));
    params.tensor_buft_overrides = experts_away.overrides();
    params.no_alloc = true;
    params.load_mode = LLAMA_LOAD_MODE_NONE; // nothing is mapped
    const LoggedErrors logged;
    // llama.cpp's own loader checks each tensor against the model's hyperparameters. llama_model_init_from_user()
    // trusts the hyperparameters, and a graph built from wrong ones ends the process.
    ModelHandle model(llama_model_load_from_file(path.c_str(), params));
    if (model == nullptr) {
        throw llama_refused(ErrorKind::model, fmt::format("{}: llama.cpp does not accept the model", path), logged,
                            "check that the file is complete and its architecture is one llama.cpp knows");
    }
    return model;
}

ModelFacts model_facts(const llama_model *model) {
    return {places_of_stock(model), aliased_bytes(model),
            static_cast<uint64_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)))};
}

ContextFacts context_facts(llama_model *model, const ContextSpec &resolved, const std::string &file) {
    malloc_trim(0); // return the memory of the previous context
    const uint64_t without_context = process_memory().rss_bytes;
    const ContextHandle context = make_context(model, resolved, file);
    ContextFacts facts;
    for (const auto &[type, part] : llama_get_memory_breakdown(context.get())) {
        if (type != expert_buffer_type()) {
            facts.resident_bytes += part.model;
        }
        facts.kv_bytes += part.context;
        facts.compute_bytes += part.compute;
    }
    const uint64_t with_context = process_memory().rss_bytes;
    facts.process_bytes = with_context - std::min(with_context, without_context);
    facts.idle = idle_addresses();
    return facts;
}

} // namespace larder

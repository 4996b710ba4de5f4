#include "runtime/params.h"

#include "base/check.h"
#include "base/error.h"
#include "machine/cpus.h"
#include "plan/plan.h"
#include "runtime/generation.h"
#include "runtime/llama_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace larder {

namespace {

constexpr uint32_t ctx_tokens_default_max = 4096;

ggml_type cache_type(std::string_view name, std::string_view flag) {
    // Types that llama.cpp supports for its KV cache.
    static constexpr std::array types = {GGML_TYPE_F32,    GGML_TYPE_F16,  GGML_TYPE_BF16,
                                         GGML_TYPE_Q8_0,   GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                                         GGML_TYPE_IQ4_NL, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1};
    std::string known;
    for (const ggml_type type : types) {
        if (name == ggml_type_name(type)) {
            return type;
        }
        known += fmt::format("{}{}", known.empty() ? "" : ", ", ggml_type_name(type));
    }
    throw Error(ErrorKind::usage, fmt::format("{}: '{}' is not a type of KV cache", flag, name),
                fmt::format("choose one of {}", known));
}

// Maximum number of tokens whose logits are kept at once: one per sequence, or all tokens of the batch.
uint32_t outputs_max(const ContextSpec &resolved) {
    return resolved.logits_for_all ? std::max(resolved.batch_tokens, resolved.sequences) : resolved.sequences;
}

} // namespace

std::string_view to_string(FlashAttention flash_attention) {
    switch (flash_attention) {
    case FlashAttention::automatic:
        return "auto";
    case FlashAttention::on:
        return "on";
    case FlashAttention::off:
        return "off";
    }
    check_failed("flash attention has a name", __FILE__, __LINE__);
}

uint32_t ctx_tokens_of(const ContextSpec &spec, uint64_t model_ctx_tokens) {
    if (spec.ctx_tokens > 0) {
        return spec.ctx_tokens;
    }
    return model_ctx_tokens == 0 ? ctx_tokens_default_max
                                 : static_cast<uint32_t>(std::min<uint64_t>(model_ctx_tokens, ctx_tokens_default_max));
}

ContextSpec resolve(const ContextSpec &spec, uint64_t model_ctx_tokens) {
    ContextSpec resolved = spec;
    resolved.ctx_tokens = rounded_context(ctx_tokens_of(spec, model_ctx_tokens)); // as llama.cpp does
    if (resolved.threads == 0) {
        resolved.threads = usable_cpus().default_threads();
    }
    if (resolved.threads_batch == 0) {
        resolved.threads_batch = resolved.threads;
    }
    if (std::max(resolved.threads, resolved.threads_batch) > GGML_MAX_N_THREADS) {
        throw Error(ErrorKind::usage, fmt::format("-t, -tb: more than {} threads", GGML_MAX_N_THREADS),
                    "take as many as there are cores");
    }
    if (resolved.sequences == 0 || resolved.sequences > llama_max_parallel_sequences()) {
        throw Error(ErrorKind::usage, fmt::format("-np: not 1 to {} sequences", llama_max_parallel_sequences()),
                    "take as many as there are conversations at once");
    }
    cache_type(resolved.cache_type_k, "--cache-type-k");
    cache_type(resolved.cache_type_v, "--cache-type-v");
    return resolved.ubatch_tokens == 0 ? resolved : with_ubatch(resolved, resolved.ubatch_tokens);
}

ContextSpec with_ubatch(const ContextSpec &resolved, uint32_t ubatch_tokens) {
    ContextSpec spec = resolved;
    spec.ubatch_tokens = std::min(ubatch_tokens, spec.ctx_tokens);
    // With logits_for_all the batch is one ubatch, so that no more logits are held at once.
    spec.batch_tokens =
        spec.logits_for_all ? spec.ubatch_tokens : std::clamp(spec.batch_tokens, spec.ubatch_tokens, spec.ctx_tokens);
    return spec;
}

llama_model_params model_params(bool repack) {
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.use_extra_bufts = repack;        // repacked weights change the last bits of the results
    params.lazy_mode = LLAMA_LAZY_MODE_OFF; // the lazy mode maps the file
    return params;
}

llama_context_params context_params(const ContextSpec &resolved) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = resolved.ctx_tokens;
    params.n_batch = resolved.batch_tokens;
    params.n_ubatch = resolved.ubatch_tokens;
    params.n_seq_max = resolved.sequences;
    params.kv_unified = resolved.sequences > 1; // each sequence may use all of the context that the others leave free
    params.n_outputs_max = outputs_max(resolved);
    params.n_threads = static_cast<int32_t>(resolved.threads);
    params.n_threads_batch = static_cast<int32_t>(resolved.threads_batch);
    params.type_k = cache_type(resolved.cache_type_k, "--cache-type-k");
    params.type_v = cache_type(resolved.cache_type_v, "--cache-type-v");
    switch (resolved.flash_attention) {
    case FlashAttention::automatic:
        params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_AUTO;
        break;
    case FlashAttention::on:
        params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
        break;
    case FlashAttention::off:
        params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
        break;
    }
    params.no_perf = true;
    return params;
}

ContextHandle make_context(llama_model *model, const ContextSpec &resolved, const std::string &file) {
    const LoggedErrors logged;
    ContextHandle context(llama_init_from_model(model, context_params(resolved)));
    if (context == nullptr) {
        throw llama_refused(ErrorKind::engine, "llama.cpp does not accept the context", logged,
                            "lower -c, or check --cache-type-k, --cache-type-v and -fa");
    }
    refuse_what_cannot_generate(context.get(), file);
    return context;
}

uint64_t output_bytes(const ContextSpec &resolved, uint64_t n_vocab) {
    return uint64_t{outputs_max(resolved)} * n_vocab * sizeof(float);
}

} // namespace larder

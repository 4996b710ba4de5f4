// larder-tiny-models: writes the tiny model that llama.cpp's own test program makes of each architecture. The source of
// that program (tests/test-llama-archs.cpp of llama.cpp, unmodified) is compiled into this one for the hyperparameters.
// This file only gives MoE models more experts than one token uses, so that experts are evicted.
//
//   larder-tiny-models                       lists the models, one "ARCHITECTURE moe" or "ARCHITECTURE dense" per line
//   larder-tiny-models ARCHITECTURE moe OUT  writes one model
#define main llama_cpp_main
#include "test-llama-archs.cpp"
#undef main

#include "llama-model.h"

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <iostream>

namespace {

constexpr uint32_t experts = 8;

bool is_one_of(llm_arch arch, std::initializer_list<llm_arch> some) {
    return std::find(some.begin(), some.end(), arch) != some.end();
}

bool can_be_made(llm_arch arch) {
    // llama.cpp's program skips these too: its hyperparameters are not sufficient for them.
    if (is_one_of(arch, {LLM_ARCH_UNKNOWN, LLM_ARCH_GEMMA4, LLM_ARCH_EAGLE3, LLM_ARCH_DFLASH})) {
        return false;
    }
    // It does not run encoders, but has enough hyperparameters to make these.
    return arch_supported(arch) || is_one_of(arch, {LLM_ARCH_MODERN_BERT, LLM_ARCH_NEO_BERT, LLM_ARCH_EUROBERT,
                                                    LLM_ARCH_GEMMA_EMBEDDING, LLM_ARCH_T5ENCODER});
}

bool has_experts(llm_arch arch) {
    // For these it makes only dense models.
    return moe_implemented(arch) || is_one_of(arch, {LLM_ARCH_JAMBA, LLM_ARCH_NEMOTRON_H, LLM_ARCH_NEMOTRON_H_MOE,
                                                     LLM_ARCH_GRANITE_HYBRID, LLM_ARCH_GRANITE_SWA});
}

void list() {
    for (const llm_arch arch : llm_arch_all()) {
        if (!can_be_made(arch)) {
            continue;
        }
        if (!moe_mandatory(arch)) {
            std::cout << llm_arch_name(arch) << " dense\n";
        }
        if (has_experts(arch)) {
            std::cout << llm_arch_name(arch) << " moe\n";
        }
    }
}

// llama_model_save_to_file() supports fewer architectures: it writes the hyperparameters anew, and omits some.
void save(const gguf_context *settings, const llama_model *model, const char *path) {
    const gguf_context_ptr file(gguf_init_empty());
    gguf_set_kv(file.get(), settings);
    for (const auto &[name, tensor] : llama_internal_get_tensor_map(model)) {
        if (gguf_find_tensor(file.get(), name.c_str()) < 0) { // the output matrix may be the embedding
            gguf_add_tensor(file.get(), tensor);
        }
    }
    if (!gguf_write_to_file(file.get(), path, false)) {
        throw std::runtime_error(std::string(path) + " cannot be written");
    }
}

void write(llm_arch arch, bool moe, const char *path) {
    const gguf_context_ptr settings = get_gguf_ctx(arch, moe);
    if (moe) {
        gguf_set_val_u32(settings.get(), LLM_KV(arch)(LLM_KV_EXPERT_COUNT).c_str(), experts);
    }
    tensor_data_params weights = {1, 0.1F};
    llama_model_params params = llama_model_default_params();
    params.progress_callback = silent_model_load_progress;
    const llama_model_ptr model(llama_model_init_from_user(settings.get(), set_tensor_data, &weights, params));
    if (model == nullptr) {
        throw std::runtime_error("llama.cpp could not make the model");
    }
    save(settings.get(), model.get(), path);
}

} // namespace

int main(int argc, char **argv) {
    llama_log_set(
        [](ggml_log_level level, const char *text, void *) {
            std::cerr << (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT ? text : "");
        },
        nullptr);
    if (argc == 1) {
        list();
        return 0;
    }
    const llm_arch arch = argc == 4 ? llm_arch_from_string(argv[1]) : LLM_ARCH_UNKNOWN;
    if (!can_be_made(arch)) {
        std::cerr << "usage: larder-tiny-models [ARCHITECTURE moe|dense OUT], of those it lists\n";
        return 2;
    }
    try {
        write(arch, std::string(argv[2]) == "moe", argv[3]);
    } catch (const std::exception &error) {
        std::cerr << "error: " << argv[1] << ": " << error.what() << "\n";
        return 1;
    }
    return 0;
}

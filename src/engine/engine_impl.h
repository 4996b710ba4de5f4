// engine_impl.h — what an Engine holds, in the order it must be destroyed in reverse (private to engine).
#pragma once

#include "compute/compute.h"
#include "engine/engine.h"
#include "engine/llama_handles.h"

#include "chat.h"

#include <atomic>
#include <optional>

namespace larder {

class Engine::Impl {
  public:
    EngineOptions options; // resolved
    ModelLayout layout;
    MemoryPlan plan;
    std::unique_ptr<Reader> reader;
    std::unique_ptr<ExpertStore> store; // null for a dense model and for stock residency
    std::unique_ptr<ExpertBinding> binding;
    ModelHandle model;
    ContextHandle context;
    common_chat_templates_ptr chat_templates;
    std::atomic<bool> stop{false};

    // Written by the thread that drives the session, read by stats() from any.
    std::atomic<uint64_t> prompt_tokens{0};
    std::atomic<uint64_t> decode_tokens{0};
    std::atomic<double> prompt_ms{0};
    std::atomic<double> decode_ms{0};
    std::atomic<double> ttft_ms{0};
    double load_ms = 0;

    void make_the_plan();
    void open_arena();
    void open_stock();
    void create_context();
    [[nodiscard]] const llama_vocab *vocab() const { return llama_model_get_vocab(model.get()); }

    // llama.cpp's abort callback: a read failed, or the user wants to stop.
    static bool abort_requested(void *impl);
    // The cause of a failed decode, as an Error to throw; none if it was the user's stop.
    std::optional<Error> take_failure();
};

} // namespace larder

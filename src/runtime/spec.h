// spec.h — what is to be loaded: models, the context that will be made on each, and what the process may use for them.
//
// These are plain values. They are made once from flags, or from a job of another larder process (spec_json.h), and are
// read by the planner. Units: tokens, bytes.
#pragma once

#include "compute/compute.h"
#include "io/io.h"
#include "layout/layout.h"
#include "plan/plan.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace larder {

enum class FlashAttention { automatic, on, off };
std::string_view to_string(FlashAttention flash_attention);

// The context that will be made on a model. It may be smaller than said here, never larger.
struct ContextSpec {
    uint32_t ctx_tokens = 0; // 0: the model's own context, at most 4096
    uint32_t sequences = 1;  // that share the context, as llama.cpp's --parallel
    uint32_t batch_tokens = 2048;
    uint32_t ubatch_tokens = 0; // 0: chosen by the plan, at most 512
    uint32_t threads = 0;       // 0: the physical cores this process may use
    uint32_t threads_batch = 0; // 0: as threads
    std::string cache_type_k = "f16";
    std::string cache_type_v = "f16";
    FlashAttention flash_attention = FlashAttention::automatic;
    bool logits_for_all = false; // keep the logits of every token of a batch, not of the last of each sequence only

    bool operator==(const ContextSpec &) const = default;
};

// The context in tokens that a spec asks for, on a model with this context of its own.
uint32_t ctx_tokens_of(const ContextSpec &spec, uint64_t model_ctx_tokens);

// Is told which experts a model's tokens are routed to. The model must not outlive it.
class StepObserver {
  public:
    StepObserver() = default;
    virtual ~StepObserver() = default;
    StepObserver(const StepObserver &) = delete;
    StepObserver &operator=(const StepObserver &) = delete;

    // Before a weight is read. What it throws ends the load.
    virtual void model_opens(const ModelLayout &layout) = 0;
    // The choice of one MoE layer for all tokens of a ubatch (compute.h's OnRoute). On a compute thread, in the middle
    // of a graph.
    virtual void routed(uint32_t moe_layer, uint32_t top_k, std::span<const int32_t> experts) noexcept = 0;
    // After a step, on the thread that made it. `decode`: of a single token after a prompt. May throw: the step stands.
    virtual void step_done(bool decode) = 0;
    virtual void step_failed() noexcept = 0;
};

struct ModelSpec {
    std::string path; // a GGUF, or any shard of a split one
    ContextSpec context;
    // None: repacked if all experts of all models fit into their arenas, else mixed, or plain where that cannot be.
    std::optional<Kernels> kernels;
    StepObserver *observer = nullptr; // not owned; null for none
};

// What the process may use, and how experts are read. All models share it.
struct RuntimeOptions {
    PlanOptions plan;
    ReaderOptions reader;
    std::chrono::milliseconds read_timeout{std::chrono::seconds(60)}; // of a disk that does not answer; 0: none
    // What the process and its children hold beside models, contexts and the runtime; part of the plan's overhead.
    uint64_t beside_bytes = 0;
    bool lock_memory = false; // --mlock: no page of the process is ever swapped out
    bool verbose = false;     // llama.cpp's own log to standard error
    // While resident weights are read, on the thread that loads. May be empty.
    std::function<void(uint64_t bytes_done, uint64_t bytes_total)> progress;
    // Is told, in a line for people, when arenas shrink or regrow: on another thread, at any time. Must not throw. May
    // be empty.
    std::function<void(const std::string &what)> on_resize;
};

} // namespace larder

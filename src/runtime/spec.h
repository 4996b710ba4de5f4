// spec.h — what to load: models, the context on each, and what the process may use.
//
// Plain values. They are made once, from flags or from a job of another larder process (spec_json.h), and read by the
// planner. Units: tokens, bytes.
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

// The planned context of a model. The real context may be smaller, not larger.
struct ContextSpec {
    uint32_t ctx_tokens = 0; // 0: the model's own context length, at most 4096
    uint32_t sequences = 1;  // share the context, as with llama.cpp's --parallel
    uint32_t batch_tokens = 2048;
    uint32_t ubatch_tokens = 0; // 0: the plan chooses, at most 512
    uint32_t threads = 0;       // 0: the physical cores that this process may use
    uint32_t threads_batch = 0; // 0: same as threads
    std::string cache_type_k = "f16";
    std::string cache_type_v = "f16";
    FlashAttention flash_attention = FlashAttention::automatic;
    // Keep the logits of all tokens of a batch, not only of the last token of each sequence.
    bool logits_for_all = false;

    bool operator==(const ContextSpec &) const = default;
};

// Context length in tokens for a spec and a model whose own context length is `model_ctx_tokens`.
uint32_t ctx_tokens_of(const ContextSpec &spec, uint64_t model_ctx_tokens);

// Receives the experts that the router chose. Must outlive the model.
class StepObserver {
  public:
    StepObserver() = default;
    virtual ~StepObserver() = default;
    StepObserver(const StepObserver &) = delete;
    StepObserver &operator=(const StepObserver &) = delete;

    // Called before weights are read. An exception ends the load.
    virtual void model_opens(const ModelLayout &layout) = 0;
    // The choice of one MoE layer for all tokens of a ubatch (OnRoute in compute.h). Called on a compute thread, while
    // the graph runs.
    virtual void routed(uint32_t moe_layer, uint32_t top_k, std::span<const int32_t> experts) noexcept = 0;
    // Called after a step, on the stepping thread. `decode`: the step was a single token after a prompt. May throw; the
    // result of the step stays valid.
    virtual void step_done(bool decode) = 0;
    virtual void step_failed() noexcept = 0;
};

struct ModelSpec {
    std::string path; // a GGUF, or any shard of a split GGUF
    ContextSpec context;
    // Empty: repacked if all experts of all models fit into their arenas; else mixed, or plain where mixed is
    // impossible.
    std::optional<Kernels> kernels;
    StepObserver *observer = nullptr; // not owned; may be null
};

// What the process may use, and how experts are read. Applies to all models together.
struct RuntimeOptions {
    PlanOptions plan;
    ReaderOptions reader;
    // Limit for a disk that does not respond; 0: no limit.
    std::chrono::milliseconds read_timeout{std::chrono::seconds(60)};
    // Memory of the process and its children besides models, contexts and the runtime. Part of the plan's overhead.
    uint64_t beside_bytes = 0;
    bool lock_memory = false; // --mlock: the process is never swapped out
    bool verbose = false;     // llama.cpp's log goes to standard error
    // Called while resident weights are read, on the loading thread. May be empty.
    std::function<void(uint64_t bytes_done, uint64_t bytes_total)> progress;
    // Called when arenas shrink or regrow, with one human-readable line. Called on another thread, at any time. Must
    // not throw. May be empty.
    std::function<void(const std::string &what)> on_resize;
};

} // namespace larder

// recorder.h — collects the router's choices while a graph runs, and writes them token by token.
//
// llama.cpp evaluates a batch in ubatches, and each layer for all tokens of a ubatch; a trace is ordered by token. The
// last layer of a prefill is evaluated only for tokens whose logits are needed, which are the last tokens of their
// ubatch. The other tokens get no expert in that layer.
//
// Threads: routed() on a compute thread while a step runs, the others on the thread that steps.
#pragma once

#include "lab/trace/trace.h"
#include "layout/layout.h"
#include "runtime/spec.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace larder {

class RouteRecorder final : public StepObserver {
  public:
    explicit RouteRecorder(std::string path);
    ~RouteRecorder() override;

    // Creates the file. Throws Error(io), and Error(usage) for a dense model.
    void model_opens(const ModelLayout &layout) override;
    void routed(uint32_t moe_layer, uint32_t top_k, std::span<const int32_t> experts) noexcept override;
    // step_done() writes the choices since the last step to the trace; step_failed() drops them. Throws Error(io).
    void step_done(bool decode) override;
    void step_failed() noexcept override;

    // Ends the trace. Afterwards the file is complete. Throws Error(io).
    void close();

  private:
    static constexpr uint32_t not_traced = UINT32_MAX;

    struct Layer {
        std::vector<int32_t> experts; // [token][k]
    };
    struct Ubatch {
        std::vector<Layer> layers;
    };

    void write(const Ubatch &ubatch, TracePhase phase);

    std::string path_;
    uint32_t top_k_ = 0;
    uint32_t n_layer_ = 0;
    std::vector<uint32_t> traced_layer_of_; // by MoE layer; not_traced for layers that route among other experts
    std::unique_ptr<TraceWriter> writer_;
    std::vector<Ubatch> ubatches_;
    uint32_t layer_last_ = 0;
    bool out_of_memory_ = false;
};

} // namespace larder

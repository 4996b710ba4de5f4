// route_recorder.h — collects what the router chose while a graph runs, and writes it token by token (private to
// engine).
//
// llama.cpp evaluates a batch in ubatches, and each layer of a ubatch for all of its tokens; a trace goes token by
// token. The last layer of a prefill is evaluated only for tokens whose logits are wanted, the last of their ubatch:
// the others get no expert there.
#pragma once

#include "layout/layout.h"
#include "trace/trace.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace larder {

class RouteRecorder {
  public:
    // Throws Error(io).
    RouteRecorder(const std::string &path, const ModelLayout &layout);

    // The choice of one MoE layer for all tokens of a ubatch; see compute.h's OnRoute.
    void add(uint32_t moe_layer, uint32_t top_k, std::span<const int32_t> experts) noexcept;

    // What was added since the last call becomes tokens of the trace. Throws Error(io).
    void write(TracePhase phase);
    // Forgets it: the batch failed.
    void drop();
    void close() { writer_.close(); }

  private:
    static constexpr uint32_t not_traced = UINT32_MAX;

    struct Layer {
        std::vector<int32_t> experts; // [token][k]
    };
    struct Ubatch {
        std::vector<Layer> layers;
    };

    void write(const Ubatch &ubatch, TracePhase phase);

    uint32_t top_k_;
    uint32_t n_layer_ = 0;
    std::vector<uint32_t> traced_layer_of_; // by MoE layer; not_traced for those that route among other experts
    TraceWriter writer_;
    std::vector<Ubatch> ubatches_;
    uint32_t layer_last_ = 0;
    bool out_of_memory_ = false;
};

} // namespace larder

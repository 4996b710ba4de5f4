// planner.h — what a model would take with these options, without reading a weight of it.
//
// A Planner reads the model's metadata and probes the machine once, and then answers how the memory would be shared out
// under different options and contexts. plan() is the decision Engine::open() makes, from the same code. Each new
// context, ubatch or path of kernels costs one look at what llama.cpp would allocate, some milliseconds to tens of
// them.
//
// Threads: one.
// Errors: as Engine::open() up to its plan.
#pragma once

#include "engine/engine.h"

#include <memory>

namespace larder {

class Placement;

class Planner {
  public:
    explicit Planner(const EngineOptions &options);
    ~Planner();
    Planner(const Planner &) = delete;
    Planner &operator=(const Planner &) = delete;

    [[nodiscard]] const ModelLayout &layout() const;
    [[nodiscard]] const Machine &machine() const;
    [[nodiscard]] const EngineOptions &options() const; // resolved

    // The plan of the options. Throws Error(budget) if there is none, or for a context so long
    // that even asking would take more than the machine can give.
    PlannedRun plan();
    // With --mlock, throws Error(budget) if the process may not lock what that plan holds.
    void check_lock(const PlannedRun &planned) const;

    // What the options cannot do without with another context: the smallest ubatch and, where they name no kernels,
    // plain ones. A budget that this does not fit into is refused. Throws Error(budget) for a context so long that even
    // asking would take more than the machine can give.
    FixedBytes least(uint32_t ctx_tokens);
    [[nodiscard]] uint32_t least_ubatch(uint32_t ctx_tokens) const;
    [[nodiscard]] Kernels least_kernels() const;

    // For the engine, after plan(): where the tensors go, and the layout; the Planner is done then.
    std::unique_ptr<Placement> take_placement();
    ModelLayout take_layout();

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace larder

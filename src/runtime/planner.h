// planner.h — makes one plan for all models of a process, without reading weights.
//
// A Planner reads the models' metadata, probes the machine, starts a Look, and then computes how the memory would be
// divided. Runtime::prepare() uses plan() too. Each new context, ubatch or choice of kernels costs one question to the
// Look: some milliseconds to some tens of milliseconds.
//
// Threads: one. Errors: as Runtime::prepare().
#pragma once

#include "machine/machine.h"
#include "runtime/placement.h"
#include "runtime/runtime.h"

#include <memory>
#include <vector>

namespace larder {

class Planner {
  public:
    // `specs` must not be empty.
    Planner(const std::vector<ModelSpec> &specs, const RuntimeOptions &options);
    ~Planner();
    Planner(const Planner &) = delete;
    Planner &operator=(const Planner &) = delete;

    [[nodiscard]] const ModelLayout &layout(size_t model = 0) const;
    [[nodiscard]] const Machine &machine() const;
    [[nodiscard]] const ModelSpec &spec(size_t model = 0) const; // with a resolved context
    [[nodiscard]] const PlanOptions &plan_options() const;

    // Throws Error(budget) for contexts so long that measuring them would take more than --ram. plan() measures them
    // where the machine has the memory, so that its error can list the parts.
    void refuse_contexts_beyond_budget() const;
    // The plan for the contexts of the specs and the plan options. Throws Error(budget) if none fits, or if a context
    // is so long that measuring it would take more memory than is available.
    ProcessPlan plan();
    // With --mlock, throws Error(budget) if the process may not lock as much memory as the plan holds.
    void check_lock(const ProcessPlan &plan);

    // The smallest memory for a single model with another context: with the smallest ubatch and, if its spec names no
    // kernels, plain ones. A budget below this is refused. Throws Error(budget) if the context is so long that
    // measuring it would take more memory than is available.
    FixedBytes least(uint32_t ctx_tokens);
    [[nodiscard]] uint32_t least_ubatch(uint32_t ctx_tokens) const;
    [[nodiscard]] Kernels least_kernels() const;

    // For the runtime, after plan(): the places of each model's tensors, and the layouts. Do not use the Planner
    // afterwards.
    std::vector<PlacePatterns> take_places();
    std::vector<ModelLayout> take_layouts();

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace larder

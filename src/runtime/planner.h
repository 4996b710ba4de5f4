// planner.h — one plan for all models of a process, without reading a weight of any.
//
// A Planner reads the models' metadata, probes the machine and starts a Look, and then answers how the memory would be
// shared out. plan() is the decision that Runtime::prepare() makes, from the same code. Each new context, ubatch or
// path of kernels costs one question to the Look, some milliseconds to tens of them.
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
    // At least one spec.
    Planner(const std::vector<ModelSpec> &specs, const RuntimeOptions &options);
    ~Planner();
    Planner(const Planner &) = delete;
    Planner &operator=(const Planner &) = delete;

    [[nodiscard]] const ModelLayout &layout(size_t model = 0) const;
    [[nodiscard]] const Machine &machine() const;
    [[nodiscard]] const ModelSpec &spec(size_t model = 0) const; // with its context resolved
    [[nodiscard]] const PlanOptions &plan_options() const;

    // Throws Error(budget) for contexts so long that measuring them would take more than --ram. plan() measures them
    // all the same where the machine has room, to explain a refusal.
    void refuse_contexts_beyond_budget() const;
    // The plan with the specs' contexts and the plan options. Throws Error(budget) if there is none, or for contexts
    // so long that even asking would take more than the machine can give.
    ProcessPlan plan();
    // With --mlock, throws Error(budget) if the process may not lock what that plan holds.
    void check_lock(const ProcessPlan &plan);

    // What a single model cannot do without with another context: the smallest ubatch and, where its spec names no
    // kernels, plain ones. A budget that this does not fit into is refused. Throws Error(budget) for a context so long
    // that even asking would take more than the machine can give.
    FixedBytes least(uint32_t ctx_tokens);
    [[nodiscard]] uint32_t least_ubatch(uint32_t ctx_tokens) const;
    [[nodiscard]] Kernels least_kernels() const;

    // For the runtime, after plan(): where the tensors of each model are placed, and the layouts. The Planner is done
    // then.
    std::vector<PlacePatterns> take_places();
    std::vector<ModelLayout> take_layouts();

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace larder

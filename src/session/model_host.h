// model_host.h — the interface between a session and the code that loaded its model and context.
//
// open_model.h has the standard host. lab/residency has others, for comparison. A host owns everything it returns.
#pragma once

#include "compute/compute.h"
#include "io/io.h"
#include "layout/layout.h"
#include "plan/plan.h"
#include "runtime/spec.h"
#include "runtime/step.h"
#include "session/figures.h"

#include <cstdint>
#include <string_view>

struct llama_model;

namespace larder {

class ModelHost {
  public:
    ModelHost() = default;
    virtual ~ModelHost() = default;
    ModelHost(const ModelHost &) = delete;
    ModelHost &operator=(const ModelHost &) = delete;

    [[nodiscard]] virtual std::string_view residency() const = 0; // "arena", or the name of a residency of the lab
    [[nodiscard]] virtual const ModelLayout &layout() const = 0;
    [[nodiscard]] virtual llama_model *model() const = 0;
    [[nodiscard]] virtual AttachedContext &context() const = 0;
    [[nodiscard]] virtual const ContextSpec &context_spec() const = 0; // with all defaults resolved
    [[nodiscard]] virtual Kernels kernels() const = 0;
    [[nodiscard]] virtual const MemoryPlan &plan() const = 0; // all zero without a budget
    [[nodiscard]] virtual const ReaderInfo &reader_info() const = 0;
    [[nodiscard]] virtual StepObserver *observer() const = 0; // may be null

    // Called after a step of `n_token` tokens, on the stepping thread.
    virtual void step_ended(uint32_t n_token) = 0;
    virtual void add_figures(RunFigures &figures) const = 0; // any thread
};

} // namespace larder

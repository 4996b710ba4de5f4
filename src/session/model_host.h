// model_host.h — what a session runs on: a loaded model with one context, and who loaded it.
//
// The runtime's is in open_model.h; the lab has others to compare it with (lab/residency). A host owns all it returns.
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

    [[nodiscard]] virtual std::string_view residency() const = 0; // "arena", or what the lab has
    [[nodiscard]] virtual const ModelLayout &layout() const = 0;
    [[nodiscard]] virtual llama_model *model() const = 0;
    [[nodiscard]] virtual AttachedContext &context() const = 0;
    [[nodiscard]] virtual const ContextSpec &context_spec() const = 0; // resolved
    [[nodiscard]] virtual Kernels kernels() const = 0;
    [[nodiscard]] virtual const MemoryPlan &plan() const = 0; // all zero where there is no budget
    [[nodiscard]] virtual const ReaderInfo &reader_info() const = 0;
    [[nodiscard]] virtual StepObserver *observer() const = 0; // null for none

    // After a step of so many tokens, on the thread that made it.
    virtual void step_ended(uint32_t n_token) = 0;
    virtual void add_figures(RunFigures &figures) const = 0; // any thread
};

} // namespace larder

// mapped_host.h — what the hosts without an arena have in common (private to lab/residency): one model and one context,
// no memory plan, and a file that is mapped instead of read.
#pragma once

#include "runtime/attached_context.h"
#include "runtime/llama_handles.h"
#include "runtime/params.h"
#include "session/model_host.h"

#include <memory>
#include <utility>

namespace larder {

class MappedHost : public ModelHost {
  public:
    [[nodiscard]] const ModelLayout &layout() const override { return layout_; }
    [[nodiscard]] llama_model *model() const override { return model_.get(); }
    [[nodiscard]] AttachedContext &context() const override { return *context_; }
    [[nodiscard]] const ContextSpec &context_spec() const override { return spec_; }
    [[nodiscard]] Kernels kernels() const override { return kernels_; }
    [[nodiscard]] const MemoryPlan &plan() const override { return no_plan_; }
    [[nodiscard]] const ReaderInfo &reader_info() const override { return mapped_; }

  protected:
    // The derived class loads model_, and then calls make_own_context().
    MappedHost(ModelLayout layout, ContextSpec spec, Kernels kernels)
        : layout_(std::move(layout)), spec_(std::move(spec)), kernels_(kernels) {}
    void make_own_context() { context_ = own_context(make_context(model_.get(), spec_, layout_.files.front())); }
    // For the destructor of a derived class that owns memory of the model.
    void unload() {
        context_.reset();
        model_.reset();
    }

    ModelLayout layout_;
    const ContextSpec spec_;
    const Kernels kernels_;
    ModelHandle model_;

  private:
    const MemoryPlan no_plan_;
    const ReaderInfo mapped_{"mmap", false, ""};
    std::unique_ptr<AttachedContext> context_;
};

} // namespace larder

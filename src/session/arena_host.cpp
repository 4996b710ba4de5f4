// The standard model host: resident weights in RAM, experts in an arena.
#include "session/open_model.h"

#include "runtime/planner.h"
#include "runtime/runtime.h"

#include <chrono>
#include <utility>

namespace larder {

namespace {

class ArenaHost final : public ModelHost {
  public:
    ArenaHost(const OpenOptions &options, std::unique_ptr<Runtime> runtime)
        : observer_(options.model.observer), runtime_(std::move(runtime)), model_(runtime_->load(0)),
          context_(model_->make_context()) {}

    [[nodiscard]] std::string_view residency() const override { return "arena"; }
    [[nodiscard]] const ModelLayout &layout() const override { return model_->layout(); }
    [[nodiscard]] llama_model *model() const override { return model_->get(); }
    [[nodiscard]] AttachedContext &context() const override { return *context_; }
    [[nodiscard]] const ContextSpec &context_spec() const override { return model_->plan().context; }
    [[nodiscard]] Kernels kernels() const override { return model_->plan().kernels; }
    [[nodiscard]] const MemoryPlan &plan() const override { return runtime_->plan().memory; }
    [[nodiscard]] const ReaderInfo &reader_info() const override { return model_->reader_info(); }
    [[nodiscard]] StepObserver *observer() const override { return observer_; }

    void step_ended(uint32_t /*n_token*/) override {}
    void add_figures(RunFigures &figures) const override {
        figures.store = model_->store_stats();
        figures.arena = model_->arena_use();
        figures.pressure = runtime_->pressure();
        figures.pressure.peak_rss_bytes = std::max(figures.pressure.peak_rss_bytes, figures.memory.rss_bytes);
    }

  private:
    StepObserver *observer_;
    std::unique_ptr<Runtime> runtime_;
    std::unique_ptr<LoadedModel> model_;
    std::unique_ptr<AttachedContext> context_;
};

} // namespace

std::unique_ptr<OpenModel> open_model(const OpenOptions &options) {
    const auto begin = std::chrono::steady_clock::now();
    std::unique_ptr<Runtime> runtime = Runtime::prepare({options.model}, options.runtime);
    if (options.on_plan) {
        options.on_plan(runtime->layout(0), runtime->plan().memory);
    }
    auto host = std::make_unique<ArenaHost>(options, std::move(runtime));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    return std::make_unique<OpenModel>(std::move(host), took.count());
}

PlannedRun plan_only(const OpenOptions &options) {
    Planner planner({options.model}, options.runtime);
    const ProcessPlan plan = planner.plan();
    planner.check_lock(plan);
    const PlannedModel &model = plan.models.front();
    return {plan.memory, model.kernels, model.context.ctx_tokens, model.context.threads};
}

} // namespace larder

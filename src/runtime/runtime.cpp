#include "runtime/runtime.h"

#include "base/check.h"
#include "base/file_identity.h"
#include "machine/address_limits.h"
#include "machine/memory_claims.h"
#include "machine/memory_lock.h"
#include "machine/out_of_memory.h"
#include "machine/threads.h"
#include "runtime/address_needs.h"
#include "runtime/budget.h"
#include "runtime/loaded_model.h"
#include "runtime/planner.h"

#include "llama.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace larder {

namespace {

std::atomic<bool> one_exists{false};

uint32_t threads_of(const ProcessPlan &plan) {
    uint32_t threads = 1;
    for (const PlannedModel &model : plan.models) {
        threads = std::max({threads, model.context.threads, model.context.threads_batch});
    }
    return threads;
}

std::vector<SizeClass> size_classes_of(const std::vector<ModelLayout> &layouts) {
    std::vector<SizeClass> all;
    for (const ModelLayout &layout : layouts) {
        all.insert(all.end(), layout.size_classes.begin(), layout.size_classes.end());
    }
    return all;
}

} // namespace

std::string llama_version() { return ::llama_version(); }

class Runtime::Impl {
  public:
    Impl(std::vector<ModelSpec> specs, RuntimeOptions options)
        : specs_(std::move(specs)), options_(std::move(options)) {
        LARDER_CHECK(!one_exists.exchange(true));
        try {
            make_the_plan();
        } catch (...) {
            one_exists = false;
            throw;
        }
    }
    ~Impl() { one_exists = false; }
    Impl(const Impl &) = delete;
    Impl &operator=(const Impl &) = delete;

    std::unique_ptr<LoadedModel> load(size_t model);

    [[nodiscard]] const ProcessPlan &plan() const { return plan_; }
    [[nodiscard]] const RuntimeOptions &options() const { return options_; }
    [[nodiscard]] const ModelLayout &layout(size_t model) const { return layouts_.at(model); }
    [[nodiscard]] PressureFigures pressure() const { return budget_->figures(); }

  private:
    void make_the_plan() {
        {
            const PlanningTurn turn; // another larder that starts now plans with the memory that this one leaves
            Planner planner(specs_, options_);
            planner.refuse_contexts_beyond_budget();
            plan_ = planner.plan();
            planner.check_lock(plan_);
            places_ = planner.take_places();
            layouts_ = planner.take_layouts();
            // Others see the memory of a child as used already.
            claim_ = OwnClaim(claimed_bytes(plan_.memory) - options_.beside_bytes);
        }
        check_threads_can_start(threads_to_start(threads_of(plan_), options_.reader)); // check before anything is read
        budget_ =
            std::make_unique<Budget>(plan_, size_classes_of(layouts_), options_.plan.overcommit, options_.on_resize);
    }

    std::vector<ModelSpec> specs_;
    RuntimeOptions options_;
    ProcessPlan plan_;
    OwnClaim claim_; // claims the memory of plan_
    std::vector<ModelLayout> layouts_;
    std::vector<PlacePatterns> places_;
    std::unique_ptr<Budget> budget_;
};

std::unique_ptr<LoadedModel> Runtime::Impl::load(size_t index) {
    ModelLayout &layout = layouts_.at(index);
    if (layout.metadata == nullptr) { // freed when the model was loaded before
        layout.metadata = open_layout(layout.files.front()).metadata;
    }
    const Placement placement(places_.at(index), expert_buffer_type());
    auto loaded = std::make_unique<LoadedModel>(std::make_unique<LoadedModel::Impl>(
        *budget_, index, layout, specs_.at(index), plan_.models.at(index), placement, options_));
    layout.metadata.reset(); // llama.cpp has its own copy
    malloc_trim(0);
    if (options_.lock_memory) {
        lock_memory();
    }
    return loaded;
}

std::unique_ptr<Runtime> Runtime::prepare(std::vector<ModelSpec> specs, RuntimeOptions options) {
    return std::unique_ptr<Runtime>(new Runtime(std::make_unique<Impl>(std::move(specs), std::move(options))));
}

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Runtime::~Runtime() = default;
const ProcessPlan &Runtime::plan() const { return impl_->plan(); }
const RuntimeOptions &Runtime::options() const { return impl_->options(); }
const ModelLayout &Runtime::layout(size_t model) const { return impl_->layout(model); }
std::unique_ptr<LoadedModel> Runtime::load(size_t model) { return impl_->load(model); }
PressureFigures Runtime::pressure() const { return impl_->pressure(); }

} // namespace larder

#include "runtime/budget.h"

#include "base/check.h"
#include "machine/machine.h"

#include <algorithm>
#include <utility>

namespace larder {

Budget::Budget(const ProcessPlan &plan, const std::vector<SizeClass> &size_classes, bool overcommit,
               std::function<void(const std::string &)> on_resize) {
    loaded_.resize(plan.models.size());
    size_t n_class = 0;
    for (const PlannedModel &model : plan.models) {
        first_class_.push_back(n_class);
        n_class += model.slots.size();
    }
    if (n_class == 0) {
        return;
    }
    const uint64_t usable = overcommit ? probe_memory().usable_bytes : plan.memory.budget_bytes;
    PressureBounds bounds = pressure_bounds(size_classes, plan.memory,
                                            plan.memory.budget_bytes - std::min(plan.memory.budget_bytes, usable));
    arenas_ = std::make_unique<Arenas>(bounds.classes);
    PressureWatcher::Options watching;
    if (on_resize) {
        watching.on_resize = [tell = std::move(on_resize)](const ArenaResize &resize) { tell(to_string(resize)); };
    }
    watcher_ = std::make_unique<PressureWatcher>(*arenas_, std::move(bounds), std::move(watching));
}

Budget::~Budget() {
    LARDER_CHECK(std::ranges::none_of(loaded_, [](bool loaded) { return loaded; }));
}

Budget::Member::Member(Budget &budget, size_t model, ExpertStore *store)
    : budget_(budget), model_(model), store_(store) {
    {
        const std::lock_guard lock(budget_.mutex_);
        LARDER_CHECK(!budget_.loaded_.at(model_));
        budget_.loaded_[model_] = true;
    }
    if (store_ != nullptr) {
        budget_.arenas_->add(*store_, budget_.first_class_.at(model_));
    }
}

Budget::Member::~Member() {
    if (store_ != nullptr) {
        budget_.arenas_->remove(*store_);
    }
    const std::lock_guard lock(budget_.mutex_);
    budget_.loaded_[model_] = false;
}

PressureFigures Budget::figures() const { return watcher_ != nullptr ? watcher_->figures() : PressureFigures{}; }

} // namespace larder

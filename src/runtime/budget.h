// budget.h — the memory budget of the process: the plan of all models, their arenas, and the watcher that shrinks the
// arenas when memory becomes short (private to runtime).
//
// Threads: any thread may call any function. Construct and destroy it on one thread.
#pragma once

#include "pressure/pressure.h"
#include "runtime/runtime.h"

#include <memory>
#include <mutex>
#include <vector>

namespace larder {

class Budget {
  public:
    // Starts the watcher if any model has experts. `on_resize`: see RuntimeOptions.
    Budget(const ProcessPlan &plan, const std::vector<SizeClass> &size_classes, bool overcommit,
           std::function<void(const std::string &)> on_resize);

    ~Budget(); // all Members must be gone
    Budget(const Budget &) = delete;
    Budget &operator=(const Budget &) = delete;

    // The share of one loaded model. The slots of its store follow the budget while the Member exists. A model has at
    // most one Member at a time. `store` is null for a dense model.
    class Member {
      public:
        Member(Budget &budget, size_t model, ExpertStore *store);
        ~Member();
        Member(const Member &) = delete;
        Member &operator=(const Member &) = delete;

      private:
        Budget &budget_;
        size_t model_;
        ExpertStore *store_;
    };

    [[nodiscard]] PressureFigures figures() const;

  private:
    std::mutex mutex_;
    std::vector<bool> loaded_;        // indexed by model; guarded by mutex_
    std::vector<size_t> first_class_; // index of each model's first size class in the plan's slots
    std::unique_ptr<Arenas> arenas_;  // arenas_ and watcher_ are null if no model has experts
    // Destroyed before any memory is freed. The kernel's figures lag: for a moment, memory that this process has freed
    // would count as memory of another process.
    std::unique_ptr<PressureWatcher> watcher_;
};

} // namespace larder

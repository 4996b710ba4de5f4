// budget.h — the one budget of a process: the plan of all models, their arenas, and the watcher that keeps these inside
// it while memory becomes short (private to runtime).
//
// Threads: any, but the constructor and the destructor.
#pragma once

#include "pressure/pressure.h"
#include "runtime/runtime.h"

#include <memory>
#include <mutex>
#include <vector>

namespace larder {

class Budget {
  public:
    // Starts the watcher, if any model has experts. `on_resize` as RuntimeOptions has it.
    Budget(const ProcessPlan &plan, const std::vector<SizeClass> &size_classes, bool overcommit,
           std::function<void(const std::string &)> on_resize);

    ~Budget(); // after all members
    Budget(const Budget &) = delete;
    Budget &operator=(const Budget &) = delete;

    // A model's part while it is loaded, which it is once at a time: from the constructor to the destructor the slots
    // of its store follow the budget. `store` is null for a dense model.
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
    std::vector<bool> loaded_;        // by model; guarded by mutex_
    std::vector<size_t> first_class_; // of each model, in the plan's slots
    std::unique_ptr<Arenas> arenas_;  // null where no model has experts, and so is the next
    // It ends before anything is freed: the kernel's figures are late, and for a moment what the process has given back
    // would look like another process's.
    std::unique_ptr<PressureWatcher> watcher_;
};

} // namespace larder

// runtime.h — llama.cpp's models and contexts in one process, inside one memory budget.
//
//   prepare()   plans all models together, before it reads weights; refuses a budget that is too small
//   load()      reads one model's resident weights and makes its arena; the result holds a llama_model
//   attach()    connects a llama_context of that model with its arena
//   step()      llama_decode(), plus the cause of a failure and the sequences that it affected
//
// The context may be made by any code, for example by a session or by llama.cpp's server. A model that was unloaded
// (its LoadedModel was destroyed) may be loaded again. It keeps its share of the budget in between.
//
// A process has one Runtime: one budget, one arena per model, and one watcher of memory pressure for all of them.
//
// Threads: prepare(), load() and the destructors from one thread at a time. Steps of one model from one thread at a
// time; steps of different models may run at the same time. Figures (store_stats(), arena_use(), pressure()) and
// request_stop() from any thread at any time.
// Errors: all functions throw Error(usage, model, budget, io, engine), except step(), which returns the error.
// Units: bytes, tokens.
#pragma once

#include "plan/plan.h"
#include "pressure/pressure.h"
#include "runtime/spec.h"
#include "runtime/step.h"
#include "store/store.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct llama_model;
struct llama_context;

namespace larder {

std::string llama_version(); // of the linked llama.cpp, such as "0.5.0"

// One model's share of the plan.
struct PlannedModel {
    FixedBytes fixed; // of this model and its context; without what exists once per process, such as the code
    Kernels kernels = Kernels::plain;
    ContextSpec context;         // with each 0 that means "default" replaced
    std::vector<uint64_t> slots; // by size class of the model's layout
    uint64_t arena_bytes = 0;
    uint64_t floor_bytes = 0;
};

struct ProcessPlan {
    MemoryPlan memory; // sums over all models; the slots of all models, one model after the other
    std::vector<PlannedModel> models;
};

class LoadedModel;

class Runtime {
  public:
    static std::unique_ptr<Runtime> prepare(std::vector<ModelSpec> specs, RuntimeOptions options);
    ~Runtime(); // all models must be gone
    Runtime(const Runtime &) = delete;
    Runtime &operator=(const Runtime &) = delete;

    [[nodiscard]] const ProcessPlan &plan() const;
    [[nodiscard]] const RuntimeOptions &options() const;
    [[nodiscard]] const ModelLayout &layout(size_t model) const; // index into the specs

    // Reads the weights. Throws if the files are not the ones that were planned. The Runtime must outlive the model.
    std::unique_ptr<LoadedModel> load(size_t model);

    [[nodiscard]] PressureFigures pressure() const;

  private:
    friend class LoadedModel;
    class Impl;
    explicit Runtime(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// A model in memory. Destroying it frees the model. Its contexts must be destroyed first.
class LoadedModel {
  public:
    class Impl;
    explicit LoadedModel(std::unique_ptr<Impl> impl);
    ~LoadedModel();
    LoadedModel(const LoadedModel &) = delete;
    LoadedModel &operator=(const LoadedModel &) = delete;

    [[nodiscard]] llama_model *get() const;
    [[nodiscard]] const ModelLayout &layout() const;
    [[nodiscard]] const PlannedModel &plan() const;
    [[nodiscard]] const ReaderInfo &reader_info() const;
    [[nodiscard]] StoreStats store_stats() const; // zero for a dense model
    [[nodiscard]] ArenaUse arena_use() const;

    // Makes the planned context. Throws Error(engine) with llama.cpp's reason.
    [[nodiscard]] std::unique_ptr<AttachedContext> make_context();
    // Attaches a context that the caller made on this model and still owns. Throws Error(budget) if it is larger than
    // planned.
    [[nodiscard]] std::unique_ptr<AttachedContext> attach(llama_context *context);

  private:
    std::unique_ptr<Impl> impl_;
};

} // namespace larder

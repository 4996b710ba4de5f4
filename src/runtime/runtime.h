// runtime.h — llama.cpp's models and contexts in one process, inside one memory budget.
//
//   prepare()   plans all models together, before a weight of any is read; refuses here
//   load()      reads one model's resident weights, makes its arena: a llama_model
//   attach()    ties a llama_context of it to its arena
//   step()      llama_decode(), with the cause of a failure and the sequences that it spoiled
//
// Who makes the context is free: a session does, and llama.cpp's own server code does. A model that was unloaded (its
// LoadedModel destroyed) may be loaded again; its part of the budget stays its own meanwhile.
//
// There is one Runtime a process: one budget, one arena a model, one watcher of memory pressure over all of them.
//
// Threads: prepare(), load() and the destructors from one thread at a time. Steps of one model from one thread at a
// time, those of different models from any. stats(), request_stop() from any thread at any time.
// Errors: Error(usage, model, budget, io, engine) from all but step(), which returns them.
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

std::string llama_version(); // of the linked llama.cpp, "0.5.0"

// One model's part of the plan.
struct PlannedModel {
    FixedBytes fixed; // of this model and its context; the code and what else is there once is not among it
    Kernels kernels = Kernels::plain;
    ContextSpec context;         // with every 0-for-default replaced
    std::vector<uint64_t> slots; // by size class of its layout
    uint64_t arena_bytes = 0;
    uint64_t floor_bytes = 0;
};

struct ProcessPlan {
    MemoryPlan memory; // of all models: sums, and their slots one model after the other
    std::vector<PlannedModel> models;
};

class LoadedModel;

class Runtime {
  public:
    static std::unique_ptr<Runtime> prepare(std::vector<ModelSpec> specs, RuntimeOptions options);
    ~Runtime(); // after all of its models
    Runtime(const Runtime &) = delete;
    Runtime &operator=(const Runtime &) = delete;

    [[nodiscard]] const ProcessPlan &plan() const;
    [[nodiscard]] const RuntimeOptions &options() const;
    [[nodiscard]] const ModelLayout &layout(size_t model) const; // of the specs, in their order

    // Reads the weights. The files are those that were planned, or it is an error. The Runtime must outlive the model.
    std::unique_ptr<LoadedModel> load(size_t model);

    [[nodiscard]] PressureFigures pressure() const;

  private:
    friend class LoadedModel;
    class Impl;
    explicit Runtime(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// A model in memory. Destroying it frees the model; its contexts must be gone.
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

    // A context as planned. Error(engine) with llama.cpp's reason.
    [[nodiscard]] std::unique_ptr<AttachedContext> make_context();
    // Takes over a context that somebody else made on this model and owns. Error(budget) if it is larger than planned.
    [[nodiscard]] std::unique_ptr<AttachedContext> attach(llama_context *context);

  private:
    std::unique_ptr<Impl> impl_;
};

} // namespace larder

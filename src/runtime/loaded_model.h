// loaded_model.h — the members of a LoadedModel (private to runtime).
#pragma once

#include "base/file_identity.h"
#include "compute/compute.h"
#include "runtime/budget.h"
#include "runtime/llama_handles.h"
#include "runtime/placement.h"
#include "runtime/runtime.h"
#include "runtime/unread_tokens.h"
#include "runtime/write_watch.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace larder {

// The error for a model file that has changed since its layout was read.
Error file_changed(const std::string &path);

class LoadedModel::Impl {
  public:
    // Reads the weights of `layout`, which must still have its metadata. All references must outlive this object.
    Impl(Budget &budget, size_t index, const ModelLayout &layout, const ModelSpec &spec, const PlannedModel &planned,
         const Placement &placement, const RuntimeOptions &options);

    // Begins a step of `context`. Tokens whose experts cannot be read are reported to `unread`. All contexts of a model
    // share the operation's scratch memory, so their steps must not overlap.
    void begin_step(const AttachedContext::Impl &context, UnreadTokens &unread);
    void end_step();
    // Any thread. Call it when the stop flag of `context` has changed. Takes effect on a step in progress.
    void stop_changed(const AttachedContext::Impl &context);
    [[nodiscard]] bool abort_requested() const {
        return binding != nullptr && ExpertBinding::abort_requested(binding.get());
    }
    // The cause of the first read that failed in the step.
    std::optional<Error> take_error() { return binding != nullptr ? binding->take_error() : std::nullopt; }
    // An error if one of the model's files has changed since its layout was read.
    [[nodiscard]] std::optional<Error> changed_file();

    const ModelLayout &layout;
    const PlannedModel &planned;
    StepObserver *const observer;

    // In order of construction; destroyed in reverse order.
    std::unique_ptr<Reader> reader;
    std::unique_ptr<ExpertStore> store; // store and binding are null for a dense model
    std::unique_ptr<ExpertBinding> binding;
    ModelHandle model;
    // Destroyed first, so that the watcher does not touch a store that is being freed.
    std::unique_ptr<Budget::Member> member;

  private:
    void open_files(const RuntimeOptions &options);
    void open_experts(const RuntimeOptions &options);
    void build(const Placement &placement, const RuntimeOptions &options);
    void tell_unread(std::span<const int32_t> tokens, int64_t n_token) noexcept;

    std::vector<FileIdentity> identities_; // indexed like layout.files
    std::optional<WriteWatch> writes_;     // to layout.files
    bool watched_ = true;                  // writes_ watches the files that the reader has open
    std::mutex step_mutex_;
    const AttachedContext::Impl *stepping_ = nullptr; // guarded by step_mutex_
    UnreadTokens *unread_ = nullptr;                  // of the current step; null between steps
};

} // namespace larder

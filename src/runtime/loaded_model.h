// loaded_model.h — what a LoadedModel holds (private to runtime).
#pragma once

#include "base/file_identity.h"
#include "compute/compute.h"
#include "runtime/budget.h"
#include "runtime/llama_handles.h"
#include "runtime/placement.h"
#include "runtime/runtime.h"
#include "runtime/unread_tokens.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace larder {

// A file of a model is not what it was when its layout was read.
Error file_changed(const std::string &path);

class LoadedModel::Impl {
  public:
    // Reads the weights of `layout`, whose metadata must be there. All references must outlive this.
    Impl(Budget &budget, size_t index, const ModelLayout &layout, const ModelSpec &spec, const PlannedModel &planned,
         const Placement &placement, const RuntimeOptions &options);

    // A step of `context` begins, whose tokens with experts that cannot be read are told to `unread`. The contexts of a
    // model share its op's scratch, so their steps must follow each other.
    void begin_step(const AttachedContext::Impl &context, UnreadTokens &unread);
    void end_step();
    // Any thread: whether `context` is stopped has changed. Reaches its step if one is under way.
    void stop_changed(const AttachedContext::Impl &context);
    [[nodiscard]] bool abort_requested() const {
        return binding != nullptr && ExpertBinding::abort_requested(binding.get());
    }
    // The first read that failed in the step.
    std::optional<Error> take_error() { return binding != nullptr ? binding->take_error() : std::nullopt; }
    // An error if one of the model's files is not what it was when its layout was read.
    [[nodiscard]] std::optional<Error> changed_file();

    const ModelLayout &layout;
    const PlannedModel &planned;
    StepObserver *const observer;

    // In the order in which they are made; they go in reverse.
    std::unique_ptr<Reader> reader;
    std::unique_ptr<ExpertStore> store; // null for a dense model, and so is the next
    std::unique_ptr<ExpertBinding> binding;
    ModelHandle model;
    std::unique_ptr<Budget::Member> member; // first to go: the watcher must not touch a store that is being freed

  private:
    void open_files(const RuntimeOptions &options);
    void open_experts(const RuntimeOptions &options);
    void build(const Placement &placement, const RuntimeOptions &options);
    void tell_unread(std::span<const int32_t> tokens, int64_t n_token) noexcept;

    std::vector<FileIdentity> identities_; // of layout.files
    std::mutex step_mutex_;
    const AttachedContext::Impl *stepping_ = nullptr; // guarded by step_mutex_
    UnreadTokens *unread_ = nullptr;                  // of the step under way, else null
};

} // namespace larder

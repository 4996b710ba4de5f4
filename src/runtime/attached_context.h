// attached_context.h — the members of an AttachedContext (private to runtime).
#pragma once

#include "runtime/llama_handles.h"
#include "runtime/runtime.h"
#include "runtime/step.h"
#include "runtime/unread_tokens.h"

#include <atomic>
#include <vector>

namespace larder {

class AttachedContext::Impl {
  public:
    // `model` is null where llama.cpp holds the experts. `owned` is the context, or null if the caller owns it.
    Impl(LoadedModel::Impl *model, llama_context *context, ContextHandle owned);
    ~Impl();
    Impl(const Impl &) = delete;
    Impl &operator=(const Impl &) = delete;

    [[nodiscard]] llama_context *get() const { return context_; }
    StepResult step(const llama_batch &batch);
    void request_stop();
    void clear_stop() { stop_.store(false); } // only between steps: the next step passes the flag to the store
    [[nodiscard]] bool stop_requested() const { return stop_.load(); }

  private:
    static bool abort_requested(void *self); // llama.cpp's abort callback
    StepResult evaluate(const llama_batch &batch);
    std::vector<CutSequence> take_back(bool report_all);

    LoadedModel::Impl *model_;
    llama_context *context_;
    ContextHandle owned_;
    UnreadTokens unread_;
    std::atomic<bool> stop_{false};
};

// Makes an AttachedContext for a model whose experts llama.cpp holds. Used by the lab.
std::unique_ptr<AttachedContext> own_context(ContextHandle context);

} // namespace larder

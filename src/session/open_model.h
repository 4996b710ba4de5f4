// open_model.h — one model and one context, ready for a session. Contains no llama.cpp types.
//
// open_model() plans, loads and attaches in one call, for commands that use a single model. A server makes its own
// runtime and contexts (runtime/runtime.h).
//
// Threads: one thread uses an OpenModel and its session; figures() and request_stop() may be called from any thread.
// Errors: open_model() throws Error of any kind. Units: bytes, tokens.
#pragma once

#include "compute/compute.h"
#include "io/io.h"
#include "layout/layout.h"
#include "plan/plan.h"
#include "runtime/runtime.h"
#include "session/figures.h"
#include "session/model_host.h"
#include "text/chat_template.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct llama_vocab;

namespace larder {

struct OpenOptions {
    ModelSpec model;
    RuntimeOptions runtime;
    // Called when the plan is made and before weights are read, on the calling thread. May be empty.
    std::function<void(const ModelLayout &, const MemoryPlan &)> on_plan;
};

// The plan that open_model() would make with these options. Reads no weights. Throws what open_model() would throw up
// to that point.
struct PlannedRun {
    MemoryPlan memory; // includes the ubatch
    Kernels kernels = Kernels::plain;
    uint32_t ctx_tokens = 0;
    uint32_t threads = 0;
};
PlannedRun plan_only(const OpenOptions &options);

class OpenModel {
  public:
    // Takes ownership of a loaded model. `load_ms`: how long loading took.
    OpenModel(std::unique_ptr<ModelHost> host, double load_ms);
    ~OpenModel();
    OpenModel(const OpenModel &) = delete;
    OpenModel &operator=(const OpenModel &) = delete;

    [[nodiscard]] const ModelHost &host() const;
    [[nodiscard]] const ModelLayout &layout() const;
    [[nodiscard]] const MemoryPlan &plan() const; // all zero without a budget
    [[nodiscard]] std::string_view residency() const;
    [[nodiscard]] Kernels kernels() const; // the kernels in use
    [[nodiscard]] const ReaderInfo &reader_info() const;
    [[nodiscard]] uint32_t ctx_tokens() const;
    [[nodiscard]] uint32_t ubatch_tokens() const; // the ubatch in use
    [[nodiscard]] uint32_t threads() const;
    [[nodiscard]] uint32_t n_vocab() const;

    // Adds the model's begin-of-text token if the model requires it. Control tokens are parsed, except in the literal
    // spans. Throws Error(usage) if the text is longer than the context, or tokenising it takes more memory than
    // planned.
    [[nodiscard]] std::vector<Token> tokenize(const PromptText &text) const;
    // The bytes of a token. A control token has bytes only with `special`.
    [[nodiscard]] std::string piece(Token token, bool special = false) const;
    [[nodiscard]] bool is_end_of_generation(Token token) const;

    [[nodiscard]] bool has_chat_template() const;
    // As ChatTemplate::render(). The result is empty if request_stop() ended it. Call start_text_process() before the
    // model is loaded.
    [[nodiscard]] PromptText render_chat(const std::vector<ChatMessage> &messages, bool read_control_tokens) const;

    // Any thread. Makes the current session call, and all later ones until clear_stop(), return early, even while they
    // wait for the disk.
    void request_stop();
    void clear_stop();
    [[nodiscard]] bool stop_requested() const;

    [[nodiscard]] RunFigures figures() const;

  private:
    friend class Session;
    class Impl;
    std::unique_ptr<Impl> impl_;
};

std::unique_ptr<OpenModel> open_model(const OpenOptions &options);

} // namespace larder

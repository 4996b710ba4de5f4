// open_model.h — one model and one context on it, ready for a session. No llama.cpp types here.
//
// open_model() plans, loads and attaches in one call, for commands that use a single model. A server has its own
// runtime and contexts (runtime/runtime.h).
//
// Threads: one thread drives an OpenModel and its session; figures() and request_stop() may be called from any thread.
// Errors: Error of any kind from open_model(). Units: bytes, tokens.
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
    // When the plan is made and no weight is read yet, on the thread that opens. May be empty.
    std::function<void(const ModelLayout &, const MemoryPlan &)> on_plan;
};

// What open_model() would decide with these options, without reading a weight. Throws what it would throw up to there.
struct PlannedRun {
    MemoryPlan memory; // with the ubatch
    Kernels kernels = Kernels::plain;
    uint32_t ctx_tokens = 0;
    uint32_t threads = 0;
};
PlannedRun plan_only(const OpenOptions &options);

class OpenModel {
  public:
    // Takes over what was loaded; `load_ms` is how long that took.
    OpenModel(std::unique_ptr<ModelHost> host, double load_ms);
    ~OpenModel();
    OpenModel(const OpenModel &) = delete;
    OpenModel &operator=(const OpenModel &) = delete;

    [[nodiscard]] const ModelHost &host() const;
    [[nodiscard]] const ModelLayout &layout() const;
    [[nodiscard]] const MemoryPlan &plan() const; // all zero where there is no budget
    [[nodiscard]] std::string_view residency() const;
    [[nodiscard]] Kernels kernels() const; // those in use
    [[nodiscard]] const ReaderInfo &reader_info() const;
    [[nodiscard]] uint32_t ctx_tokens() const;
    [[nodiscard]] uint32_t ubatch_tokens() const; // in use
    [[nodiscard]] uint32_t threads() const;
    [[nodiscard]] uint32_t n_vocab() const;

    // With the model's own begin-of-text where it wants one. Control tokens are read, but where the text is literal.
    // Throws Error(usage) for a text that is longer than the context holds, or takes more to tokenise than is planned.
    [[nodiscard]] std::vector<Token> tokenize(const PromptText &text) const;
    // Bytes of a token; of a control token only with `special`.
    [[nodiscard]] std::string piece(Token token, bool special = false) const;
    [[nodiscard]] bool is_end_of_generation(Token token) const;

    [[nodiscard]] bool has_chat_template() const;
    // As ChatTemplate::render(). Empty where request_stop() ended it. Call start_text_process() before the model is
    // loaded.
    [[nodiscard]] PromptText render_chat(const std::vector<ChatMessage> &messages, bool read_control_tokens) const;

    // Any thread. Makes the session call under way return early, also where it waits for the disk, and all later ones
    // until clear_stop().
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

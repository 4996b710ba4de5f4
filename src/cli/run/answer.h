// answer.h — one answer: a prompt evaluated, tokens sampled and streamed to standard output until the answer ends.
#pragma once

#include "cli/console/signals.h"
#include "engine/engine.h"

#include <cstdint>
#include <string>

namespace larder {

class Answerer {
  public:
    // `n_predict` tokens at most; below 0: until the model ends the answer or the context is full.
    Answerer(Engine &engine, Session &session, Signals &signals, int32_t n_predict)
        : engine_(engine), session_(session), signals_(signals), n_predict_(n_predict) {}

    // With `echo` the prompt is printed before its answer, if the session takes it. Returns what was said, which is cut
    // short where the user stopped it. Throws what the session throws.
    std::string answer(const std::string &prompt, bool echo = false);

    // An answer was made from a file that was written to meanwhile; that was said.
    [[nodiscard]] bool spoiled() const { return spoiled_; }

  private:
    std::string generate();

    Engine &engine_;
    Session &session_;
    Signals &signals_;
    int32_t n_predict_;
    bool spoiled_ = false;
};

} // namespace larder

// answer.h — one answer: a prompt evaluated, tokens sampled and streamed to standard output until the answer ends.
#pragma once

#include "cli/console/signals.h"
#include "session/session.h"

#include <cstdint>
#include <string>

namespace larder {

class Answerer {
  public:
    // `n_predict` tokens at most; below 0: until the model ends the answer or the context is full.
    Answerer(OpenModel &model, Session &session, Signals &signals, int32_t n_predict)
        : model_(model), session_(session), signals_(signals), n_predict_(n_predict) {}

    // With `echo` the prompt is printed before its answer, if the session takes it. Returns what was said, which is cut
    // short where the user stopped it. Throws what the session throws.
    std::string answer(const std::string &prompt, bool echo = false);

  private:
    std::string generate();

    OpenModel &model_;
    Session &session_;
    Signals &signals_;
    int32_t n_predict_;
};

} // namespace larder

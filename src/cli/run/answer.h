// answer.h — one answer: a prompt evaluated, tokens sampled and streamed to standard output until the answer ends.
#pragma once

#include "cli/console/signals.h"
#include "session/session.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace larder {

struct AnswerOptions {
    int32_t n_predict = -1; // tokens at most; below 0: until the model ends the answer or the context is full
    bool special = false;   // control tokens are read in messages, and printed in answers
};

class Answerer {
  public:
    Answerer(OpenModel &model, Session &session, Signals &signals, const AnswerOptions &options)
        : model_(model), session_(session), signals_(signals), options_(options) {}

    // Both return the answer, cut short where the user stopped it, and throw what the session throws.

    // The assistant's answer to a conversation.
    std::string answer(const std::vector<ChatMessage> &messages);
    // How the text goes on. With `echo` it is printed before that, if it fits into the context.
    std::string continuation(const std::string &text, bool echo = false);

  private:
    std::string answer_to(const std::function<PromptText()> &make_prompt, bool echo);
    std::string generate();

    OpenModel &model_;
    Session &session_;
    Signals &signals_;
    AnswerOptions options_;
};

} // namespace larder

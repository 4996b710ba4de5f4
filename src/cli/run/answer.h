// answer.h — makes one answer: evaluates a prompt, samples tokens and prints them to standard output.
#pragma once

#include "cli/console/signals.h"
#include "session/session.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace larder {

struct AnswerOptions {
    // Maximum number of tokens; negative: until the model ends the answer or the context is full.
    int32_t n_predict = -1;
    bool special = false; // control tokens are parsed in messages and printed in answers
};

class Answerer {
  public:
    Answerer(OpenModel &model, Session &session, Signals &signals, const AnswerOptions &options)
        : model_(model), session_(session), signals_(signals), options_(options) {}

    // Both return the answer, truncated if the user stopped it, and pass on the errors of the session.

    // The assistant's answer to a conversation.
    std::string answer(const std::vector<ChatMessage> &messages);
    // The continuation of a text. With `echo`, the text is printed first, if it fits into the context.
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

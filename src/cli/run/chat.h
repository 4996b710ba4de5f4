// chat.h — a conversation on standard input: a line a message, or /clear, or /exit.
#pragma once

#include "cli/console/signals.h"
#include "cli/run/answer.h"
#include "session/open_model.h"

#include <string>

namespace larder {

struct ChatOptions {
    std::string system_prompt;
    bool raw = false;   // no chat template: messages and answers are one running text
    bool quiet = false; // no greeting
};

// Until the input ends, /exit or a signal. Returns the exit code: a failed answer is reported and the chat goes on, but
// it is not forgotten.
int run_chat(Answerer &answerer, const OpenModel &model, Signals &signals, const ChatOptions &options);

} // namespace larder

// chat.h — a conversation on standard input: each line is a message, /clear or /exit.
#pragma once

#include "cli/console/signals.h"
#include "cli/run/answer.h"
#include "session/open_model.h"

#include <string>

namespace larder {

struct ChatOptions {
    std::string system_prompt;
    bool raw = false;   // no chat template: messages and answers form one text
    bool quiet = false; // print no greeting
};

// Runs until the input ends, /exit or a signal. A failed answer is reported and the chat continues. Returns the exit
// code, which reports a failed answer.
int run_chat(Answerer &answerer, const OpenModel &model, Signals &signals, const ChatOptions &options);

} // namespace larder

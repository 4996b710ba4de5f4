// chat_template.h — from messages to a prompt: a model's chat template, rendered where it can do no harm.
//
// A chat template is a program inside the model file. It is rendered in the text process (text_process.h), under limits
// of memory, stack and processor time. What a user wrote stays text: a control token that is spelled out in a message
// is marked as literal in the prompt, unless the caller wants it read.
//
// Threads: any number may use one ChatTemplate at the same time.
// Errors: Error(model) for a template that fails or exceeds a limit, Error(usage) for messages that are not UTF-8.
#pragma once

#include "text/text.h"

#include <functional>
#include <string>
#include <vector>

namespace larder {

struct ChatMessage {
    std::string role; // "system", "user", "assistant"
    std::string content;
};

class ChatTemplate {
  public:
    // `source`: the Jinja text of the template, not empty. The tokenizer must outlive this.
    ChatTemplate(const Tokenizer &tokenizer, std::string source) : tokenizer_(tokenizer), source_(std::move(source)) {}

    // The conversation, ready for the assistant's answer, without the begin-of-text token that tokenising adds. With
    // `read_control_tokens` those that are spelled out in messages are control tokens. Empty if `stop` became true,
    // which is asked some times a second; it may be empty.
    [[nodiscard]] PromptText render(const std::vector<ChatMessage> &messages, bool read_control_tokens,
                                    const std::function<bool()> &stop = {}) const;

  private:
    const Tokenizer &tokenizer_;
    std::string source_;
};

} // namespace larder

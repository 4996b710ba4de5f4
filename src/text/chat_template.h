// chat_template.h — renders messages to a prompt with the model's chat template, isolated in the text process.
//
// A chat template is a program inside the model file. It runs in the text process (text_process.h), with limits on
// memory, stack and processor time. Text of a user stays text: a control token that is spelled out in a message is
// marked as literal in the prompt, unless the caller allows it to be parsed.
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
    // `source`: the Jinja text of the template, not empty. The tokenizer must outlive this object.
    ChatTemplate(const Tokenizer &tokenizer, std::string source) : tokenizer_(tokenizer), source_(std::move(source)) {}

    // The prompt for the assistant's answer, without the begin-of-text token, which tokenising adds. With
    // `read_control_tokens`, control tokens that are spelled out in messages are parsed. `stop` is polled some times a
    // second and may be empty; the result is empty if it returned true.
    [[nodiscard]] PromptText render(const std::vector<ChatMessage> &messages, bool read_control_tokens,
                                    const std::function<bool()> &stop = {}) const;

  private:
    const Tokenizer &tokenizer_;
    std::string source_;
};

} // namespace larder

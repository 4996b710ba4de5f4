#include "cli/run/answer.h"

#include "cli/console/terminal.h"

#include <vector>

namespace larder {

std::string Answerer::answer(const std::vector<ChatMessage> &messages) {
    return answer_to([&] { return model_.render_chat(messages, options_.special); }, false);
}

std::string Answerer::continuation(const std::string &text, bool echo) {
    return answer_to([&] { return PromptText{text, {}}; }, echo);
}

std::string Answerer::answer_to(const std::function<PromptText()> &make_prompt, bool echo) {
    model_.clear_stop();
    signals_.answer_begins();
    const PromptText prompt = make_prompt();
    std::string text;
    if (!signals_.quit_requested() && !model_.stop_requested()) {
        const std::vector<Token> tokens = model_.tokenize(prompt);
        if (echo && tokens.size() <= model_.ctx_tokens()) {
            print_now(prompt.text);
        }
        if (session_.prefill(tokens)) {
            text = generate();
        }
    }
    signals_.answer_ends();
    return text;
}

std::string Answerer::generate() {
    std::string text;
    for (int32_t n = 0; options_.n_predict < 0 || n < options_.n_predict; n++) {
        const Token token = session_.sample();
        if (model_.is_end_of_generation(token) || model_.stop_requested()) {
            break;
        }
        const std::string piece = model_.piece(token, options_.special);
        text += piece;
        print_now(piece);
        if (n + 1 == options_.n_predict) {
            break;
        }
        if (session_.n_token() == model_.ctx_tokens()) {
            say("\nnote: the context of {} tokens is full; raise -c for more\n", model_.ctx_tokens());
            break;
        }
        if (!session_.decode(token)) {
            break;
        }
    }
    return text;
}

} // namespace larder

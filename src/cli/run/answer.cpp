#include "cli/run/answer.h"

#include "cli/console/terminal.h"

#include <vector>

namespace larder {

std::string Answerer::answer(const std::string &prompt, bool echo) {
    model_.clear_stop();
    signals_.answer_begins();
    const std::vector<Token> tokens = model_.tokenize(prompt, true);
    if (echo && tokens.size() <= model_.ctx_tokens()) {
        print_now(prompt);
    }
    std::string text;
    if (!signals_.quit_requested() && session_.prefill(tokens)) {
        text = generate();
    }
    signals_.answer_ends();
    return text;
}

std::string Answerer::generate() {
    std::string text;
    for (int32_t n = 0; n_predict_ < 0 || n < n_predict_; n++) {
        const Token token = session_.sample();
        if (model_.is_end_of_generation(token) || model_.stop_requested()) {
            break;
        }
        const std::string piece = model_.piece(token);
        text += piece;
        print_now(piece);
        if (n + 1 == n_predict_) {
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

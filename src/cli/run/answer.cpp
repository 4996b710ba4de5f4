#include "cli/run/answer.h"

#include "cli/console/terminal.h"

#include <vector>

namespace larder {

std::string Answerer::answer(const std::string &prompt, bool echo) {
    engine_.clear_stop();
    signals_.answer_begins();
    const std::vector<Token> tokens = engine_.tokenize(prompt, true);
    if (echo && tokens.size() <= engine_.ctx_tokens()) {
        print_now(prompt);
    }
    std::string text;
    if (!signals_.quit_requested() && session_.prefill(tokens)) {
        text = generate();
    }
    signals_.answer_ends();
    if (const std::string changed = engine_.take_changed_file(); !changed.empty()) {
        say("\nwarning: {} was written to while in use; the answer may not be the model's\n", changed);
        spoiled_ = true;
    }
    return text;
}

std::string Answerer::generate() {
    std::string text;
    for (int32_t n = 0; n_predict_ < 0 || n < n_predict_; n++) {
        const Token token = session_.sample();
        if (engine_.is_end_of_generation(token) || engine_.stop_requested()) {
            break;
        }
        const std::string piece = engine_.piece(token);
        text += piece;
        print_now(piece);
        if (n + 1 == n_predict_) {
            break;
        }
        if (session_.n_token() == engine_.ctx_tokens()) {
            say("\nnote: the context of {} tokens is full; raise -c for more\n", engine_.ctx_tokens());
            break;
        }
        if (!session_.decode(token)) {
            break;
        }
    }
    return text;
}

} // namespace larder

// Finds the tokens that are split off before a text is tokenised: control tokens and user-defined tokens.
#include "text/text.h"

#include "base/error.h"

#include "llama-vocab.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder {

namespace {

bool is_white(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool overlaps(const std::vector<TextSpan> &spans, const TextSpan &span) {
    const auto behind = std::partition_point(spans.begin(), spans.end(),
                                             [&](const TextSpan &other) { return other.end <= span.begin; });
    return behind != spans.end() && behind->begin < span.end;
}

} // namespace

// As llama.cpp does: the longest token first, at each place in the remaining text. Takes time linear in the text, not
// quadratic.
std::vector<Tokenizer::Piece> Tokenizer::split_at_special(const PromptText &text, bool parse_special) const {
    std::vector<Piece> pieces;
    if (!text.text.empty()) {
        pieces.push_back({{0, text.text.size()}, -1});
    }
    const std::string_view all = text.text;
    std::vector<Piece> next;
    for (const Token token : special_) {
        const llama_vocab::token_data &data = vocab_->get_token_data(token);
        const bool controls = (data.attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0;
        if ((controls && !parse_special) || data.text.empty() || all.find(data.text) == std::string_view::npos) {
            continue;
        }
        next.clear();
        for (const Piece &piece : pieces) {
            if (piece.token >= 0) {
                next.push_back(piece);
                continue;
            }
            uint64_t begin = piece.span.begin; // start of the remaining text
            for (uint64_t from = begin; begin < piece.span.end;) {
                const size_t at = all.substr(0, piece.span.end).find(data.text, from);
                if (at == std::string_view::npos) {
                    next.push_back({{begin, piece.span.end}, -1});
                    break;
                }
                const TextSpan found{at, at + data.text.size()};
                if (controls && overlaps(text.literal, found)) {
                    from = at + 1;
                    continue;
                }
                uint64_t left_end = found.begin;
                while ((data.attr & LLAMA_TOKEN_ATTR_LSTRIP) != 0 && left_end > begin && is_white(all[left_end - 1])) {
                    left_end--;
                }
                if (left_end > begin) {
                    next.push_back({{begin, left_end}, -1});
                }
                next.push_back({found, token});
                begin = found.end;
                while ((data.attr & LLAMA_TOKEN_ATTR_RSTRIP) != 0 && begin < piece.span.end && is_white(all[begin])) {
                    begin++;
                }
                from = begin;
            }
        }
        pieces.swap(next);
    }
    return pieces;
}

std::vector<TextSpan> Tokenizer::control_tokens_in(const std::string &text) const {
    std::vector<TextSpan> spans;
    for (const Piece &piece : split_at_special({text, {}}, true)) {
        if (piece.token >= 0 && !vocab_->is_user_defined(piece.token)) {
            spans.push_back(piece.span);
        }
    }
    return spans;
}

std::vector<Token> Tokenizer::tokens_of(const PromptText &text, const TokeniseOptions &options) const {
    const std::vector<Piece> pieces = split_at_special(text, options.parse_special);
    if (pieces.size() <= 1 && (pieces.empty() || pieces.front().token < 0)) { // no special token found
        return tokens_of(text.text, options.add_special, false);
    }
    if (pieces.size() / 2 > options.tokens_max) {
        throw Error(ErrorKind::usage,
                    fmt::format("the text has more than {} control tokens, and the context {}", pieces.size() / 2,
                                options.tokens_max),
                    "shorten it or raise -c");
    }
    std::vector<Token> tokens;
    if (options.add_special) { // around the whole text
        tokens = vocab_->tokenize(std::string(), true, false);
    }
    const bool begins = vocab_->get_add_bos() || vocab_->get_type() == LLAMA_VOCAB_TYPE_WPM;
    const auto first = static_cast<std::ptrdiff_t>(begins && !tokens.empty() ? 1 : 0);
    const std::vector<Token> behind(tokens.begin() + first, tokens.end());
    tokens.resize(static_cast<size_t>(first));
    for (const Piece &piece : pieces) {
        if (piece.token >= 0) {
            tokens.push_back(piece.token);
            continue;
        }
        const std::vector<Token> of_piece =
            tokens_of(text.text.substr(piece.span.begin, piece.span.end - piece.span.begin), false, false);
        tokens.insert(tokens.end(), of_piece.begin(), of_piece.end());
    }
    tokens.insert(tokens.end(), behind.begin(), behind.end());
    return tokens;
}

} // namespace larder

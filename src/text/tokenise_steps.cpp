#include "text/tokenise_steps.h"

#include "text/utf8.h"

#include "llama-vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace larder {

namespace {

// The sum of the squares of the lengths of all runs, and the longest run.
struct Runs {
    double squares = 0;
    uint64_t longest = 0;
};

template <typename Belongs> Runs runs_of(std::string_view text, Belongs belongs) {
    Runs runs;
    uint64_t length = 0;
    const auto end_run = [&] {
        runs.squares += static_cast<double>(length) * static_cast<double>(length);
        runs.longest = std::max(runs.longest, length);
        length = 0;
    };
    for (size_t i = 0; i < text.size();) {
        const Utf8Char c = next_char(text, i);
        if (belongs(c.value)) {
            length++;
        } else {
            end_run();
        }
        i += c.bytes;
    }
    end_run();
    return runs;
}

bool is_digit(uint32_t c) { return c >= '0' && c <= '9'; }
bool is_space(uint32_t c) {
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// Regular expressions that look ahead over the whole run, from each position in it.
TokeniseTime regex_time(const llama_vocab *vocab, std::string_view text) {
    switch (vocab->get_pre_type()) {
    case LLAMA_VOCAB_PRE_TYPE_SUPERBPE: {
        const Runs runs = runs_of(text, is_digit);
        return {runs.squares * 80, fmt::format("a run of {} digits", runs.longest)};
    }
    case LLAMA_VOCAB_PRE_TYPE_JAIS2: {
        const Runs runs = runs_of(text, is_space);
        return {runs.squares / 8, fmt::format("a run of {} spaces", runs.longest)};
    }
    default:
        return {};
    }
}

// For each unknown character, the SentencePiece tokenizer copies all tokens found so far.
TokeniseTime unknown_characters_time(const llama_vocab *vocab, std::string_view text) {
    std::unordered_map<uint32_t, bool> known;
    uint64_t unknown = 0;
    for (size_t i = 0; i < text.size();) {
        const Utf8Char c = next_char(text, i);
        const auto [it, first] = known.try_emplace(c.valid ? c.value : 0xFFFFFF00U + c.value, false);
        if (first) {
            it->second = vocab->text_to_token(std::string(text.substr(i, c.bytes))) != LLAMA_TOKEN_NULL;
        }
        unknown += !it->second && c.value != ' ' ? 1 : 0;
        i += c.bytes;
    }
    return {static_cast<double>(unknown) * static_cast<double>(text.size()) / 2,
            fmt::format("{} characters that the vocabulary does not have", unknown)};
}

// Tokenizers that try, at each position of a word, each length that a token has.
TokeniseTime longest_token_time(const llama_vocab *vocab, std::string_view text, bool copies) {
    const auto longest = static_cast<uint64_t>(std::max(vocab->max_token_len(), 1));
    const Runs words = runs_of(text, [&](uint32_t c) { return !copies || !is_space(c); });
    const auto tried = static_cast<double>(std::min(longest, words.longest));
    const double each = copies ? tried * (tried / 4 + 30) : tried * 4;
    return {static_cast<double>(text.size()) * each,
            fmt::format("a word of {} characters, with tokens of up to {} bytes", words.longest, longest)};
}

} // namespace

TokeniseTime tokenise_time(const llama_vocab *vocab, std::string_view text) {
    switch (vocab->get_type()) {
    case LLAMA_VOCAB_TYPE_BPE:
        return regex_time(vocab, text);
    case LLAMA_VOCAB_TYPE_SPM:
        return unknown_characters_time(vocab, text);
    case LLAMA_VOCAB_TYPE_WPM:
        return longest_token_time(vocab, text, true);
    case LLAMA_VOCAB_TYPE_UGM:
    case LLAMA_VOCAB_TYPE_RWKV:
    case LLAMA_VOCAB_TYPE_PLAMO2:
        return longest_token_time(vocab, text, false);
    default:
        return {};
    }
}

} // namespace larder

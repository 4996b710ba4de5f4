// Tokenizer: computes what a text costs, and chooses the thread on which it is tokenised.
#include "text/text.h"

#include "base/error.h"
#include "text/own_stack.h"
#include "text/tokenise_steps.h"
#include "text/utf8.h"

#include "llama-vocab.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <exception>

namespace larder {

namespace {

constexpr double nanoseconds_max = 10e9;

// Heap that llama.cpp's tokenizers take per byte of text; the worst case is one long word with each byte a symbol. An
// invalid UTF-8 byte becomes a character of three bytes.
constexpr uint64_t heap_base_bytes = 512 * KiB; // the compiled regular expression
constexpr uint64_t heap_bytes_per_byte = 256;
constexpr uint64_t heap_bytes_per_invalid_byte = 96; // in addition to heap_bytes_per_byte

constexpr uint64_t trim_from_bytes = 64 * KiB;

// Addresses, not memory, per character of a run: a text may recurse more deeply than the tried ones.
constexpr uint64_t mapped_bytes_per_char = 1024;
constexpr uint64_t base_stack_bytes = 64 * KiB;

// Characters of all classes that the pre-tokenizers' regular expressions distinguish, alone and in pairs.
constexpr std::array tried_texts = {
    "-",  "a",  "A",    "1",   " ",         "\n",       "\t",           "#",           "$", "/", "'", "aA",
    "a1", "a-", "\r\n", "-\n", "a\xCC\x81", "\xC3\xA9", "\xE4\xB8\xAD", "\xE0\xB8\x81"};
constexpr std::array tried_words = {"a ", "ab cd ", "A b "};
constexpr size_t tried_chars = 512;

std::string repeated(std::string_view unit, size_t chars) {
    std::string text;
    for (size_t n = 0; n < chars;) {
        for (size_t i = 0; i < unit.size() && n < chars; n++) {
            const Utf8Char c = next_char(unit, i);
            text += unit.substr(i, c.bytes);
            i += c.bytes;
        }
    }
    return text;
}

// llama.cpp's only tokenizer that neither splits at white space nor replaces it. It aborts on two spaces in a row.
bool dies_of_spaces(const llama_vocab *vocab) {
    return vocab->get_type() == LLAMA_VOCAB_TYPE_BPE && vocab->get_pre_type() == LLAMA_VOCAB_PRE_TYPE_WHITESPACE &&
           vocab->get_tokenizer_model() != "whitespace";
}

bool has_space(std::string_view text) { return text.find_first_of(" \t\r\n\v\f") != std::string_view::npos; }

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

} // namespace

Tokenizer::Tokenizer(const llama_vocab *vocab) : vocab_(vocab) {
    for (Token token = 0; token < static_cast<Token>(vocab->n_tokens()); token++) {
        if (vocab->is_control(token) || vocab->is_user_defined(token) || vocab->is_unknown(token)) {
            special_.push_back(token);
        }
    }
    // llama.cpp sorts the same list in the same way, so tokens of equal length have the same order.
    std::sort(special_.begin(), special_.end(), [&](Token a, Token b) { // NOLINT(modernize-use-ranges)
        return vocab->get_token_data(a).text.size() > vocab->get_token_data(b).text.size();
    });
    splits_specially_ = vocab->get_tokenizer_model() == "hybriddna";
    check_special_tokens();
    if (vocab->get_type() == LLAMA_VOCAB_TYPE_BPE) {
        try_out();
    }
}

// llama.cpp aborts if it must add a token that the vocabulary does not have.
void Tokenizer::check_special_tokens() const {
    const auto require = [&](bool wanted, Token token, const char *key) {
        if (wanted && (token < 0 || token >= static_cast<Token>(vocab_->n_tokens()))) {
            throw Error(ErrorKind::model,
                        fmt::format("the vocabulary is to add a token that it does not have ({})", key),
                        "the file is damaged: get it again, or take another GGUF of the model");
        }
    };
    const bool sentences = vocab_->get_type() == LLAMA_VOCAB_TYPE_WPM;
    require(vocab_->get_add_bos() || sentences, vocab_->token_bos(), "tokenizer.ggml.bos_token_id");
    require(vocab_->get_add_eos(), vocab_->token_eos(), "tokenizer.ggml.eos_token_id");
    require(sentences, vocab_->token_sep(), "tokenizer.ggml.seperator_token_id");
}

void Tokenizer::try_out() {
    const auto touched = [&](const std::string &text) {
        return stack_touched_by(mapped_bytes_per_char * tried_chars + base_stack_bytes,
                                [&] { (void)vocab_->tokenize(text, false, false); });
    };
    const uint64_t least = touched("a");
    const auto per_char = [&](std::string_view unit) -> uint64_t {
        if (dies_of_spaces(vocab_) && has_space(unit)) {
            return 0;
        }
        const uint64_t all = touched(repeated(unit, tried_chars));
        const uint64_t each = (all - std::min(all, least)) / tried_chars;
        return each > 32 ? each + each / 8 + 8 : 0; // a difference of a page or so is not recursion
    };
    for (const std::string_view unit : tried_texts) {
        stack_bytes_per_char_ = std::max(stack_bytes_per_char_, per_char(unit));
    }
    for (const std::string_view unit : tried_words) {
        breaks_at_spaces_ = breaks_at_spaces_ && per_char(unit) == 0;
    }
}

Tokenizer::Run Tokenizer::longest_run(std::string_view text) const {
    Run longest;
    Run run;
    const auto end_run = [&](uint64_t next) {
        if (run.chars > longest.chars) {
            longest = run;
        }
        run = {0, next};
    };
    for (size_t i = 0; i < text.size();) {
        const bool between_letters = text[i] == ' ' && i > 0 && i + 1 < text.size() && is_ascii_letter(text[i - 1]) &&
                                     is_ascii_letter(text[i + 1]);
        if (between_letters && breaks_at_spaces_) {
            end_run(i);
        }
        run.chars++;
        i += next_char(text, i).bytes;
    }
    end_run(text.size());
    return longest;
}

uint64_t Tokenizer::bytes_needed(std::string_view text) const {
    uint64_t invalid = 0;
    for (size_t i = 0; i < text.size();) {
        const Utf8Char c = next_char(text, i);
        invalid += c.valid ? 0 : 1;
        i += c.bytes;
    }
    return heap_base_bytes + text.size() * heap_bytes_per_byte + invalid * heap_bytes_per_invalid_byte +
           longest_run(text).chars * stack_bytes_per_char_;
}

void Tokenizer::refuse_costly(std::string_view text, const TokeniseOptions &options) const {
    if (const uint64_t needed = bytes_needed(text); needed > options.bytes_max) {
        const Run run = longest_run(text);
        const bool by_run = run.chars * stack_bytes_per_char_ > needed / 4;
        throw Error(ErrorKind::usage,
                    fmt::format("to tokenise the text can take {}{}, and {} are kept for it", format_bytes(needed),
                                by_run ? fmt::format(" for a run of {} characters without a break", run.chars) : "",
                                format_bytes(options.bytes_max)),
                    "shorten it, or raise --reserve");
    }
    if (const TokeniseTime time = tokenise_time(vocab_, text); time.nanoseconds > nanoseconds_max) {
        throw Error(ErrorKind::usage, fmt::format("the model's tokenizer would take too long for {}", time.what),
                    "shorten the text, or break it up");
    }
    if (dies_of_spaces(vocab_) && has_space(text)) {
        throw Error(ErrorKind::usage, "the model's tokenizer takes no white space", "give words one by one");
    }
}

std::vector<Token> Tokenizer::tokens_of(const std::string &text, bool add_special, bool parse_special) const {
    std::vector<Token> tokens;
    const auto work = [&] { tokens = vocab_->tokenize(text, add_special, parse_special); };
    const bool recurses = vocab_->get_type() == LLAMA_VOCAB_TYPE_BPE;
    const uint64_t stack_bytes =
        recurses ? longest_run(text).chars * std::max(mapped_bytes_per_char, 2 * stack_bytes_per_char_) : 0;
    if (stack_bytes + base_stack_bytes / 2 <= small_stack_bytes) {
        work();
    } else {
        run_on_own_stack(stack_bytes + base_stack_bytes, work);
    }
    return tokens;
}

std::vector<Token> Tokenizer::tokenise(const std::string &text, const TokeniseOptions &options) const {
    return tokenise(PromptText{text, {}}, options);
}

std::vector<Token> Tokenizer::tokenise(const PromptText &text, const TokeniseOptions &options) const {
    refuse_costly(text.text, options);
    try {
        std::vector<Token> tokens =
            splits_specially_ ? tokens_of(text.text, options.add_special, options.parse_special && text.literal.empty())
                              : tokens_of(text, options);
        if (text.text.size() >= trim_from_bytes) {
            malloc_trim(0); // returns the transient memory to the reserve
        }
        return tokens;
    } catch (const Error &) {
        throw;
    } catch (const std::exception &error) {
        throw Error(ErrorKind::usage, fmt::format("the text cannot be tokenised: {}", printable(error.what())),
                    "the model's vocabulary lacks what this text needs: give other characters");
    }
}

} // namespace larder

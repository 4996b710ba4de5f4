// text.h — from text to tokens: tokenising that no text and no model file can turn against the process.
//
// llama.cpp's tokenizers recurse once for each character of a run, take memory in proportion to the text, and some of
// them take time in proportion to its square. A Tokenizer gives the same tokens, and bounds all three:
//   stack   a text with a long run is tokenised on a thread of its own, whose stack is mapped for that run. What a call
//           takes of the caller's stack never depends on the text.
//   memory  bytes_needed() says what a text can take at most; tokenise() refuses a text that needs more than it may.
//   steps   a text that would keep llama.cpp busy for more than some seconds is refused.
//
// Threads: any number may use one Tokenizer at the same time. Units: bytes.
// Errors: Error(usage) for a text that is refused, Error(model) for a vocabulary that cannot be used, Error(io) where a
// thread or its stack cannot be had.
#pragma once

#include "base/bytes.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

struct llama_vocab;

namespace larder {

using Token = int32_t;

// A part of a text, in bytes.
struct TextSpan {
    uint64_t begin = 0;
    uint64_t end = 0; // behind the last byte
};

// A text in which control tokens are read, but for the parts that came from users.
struct PromptText {
    std::string text;
    std::vector<TextSpan> literal; // ascending, apart from each other: what looks like a control token there is text
};

struct TokeniseOptions {
    bool add_special = false;   // the model's begin-of-text, and its end-of-text, where it wants them
    bool parse_special = false; // read control tokens, such as <|im_end|>, in the text
    uint64_t bytes_max = std::numeric_limits<uint64_t>::max();  // what tokenising may take
    uint64_t tokens_max = std::numeric_limits<uint64_t>::max(); // more control tokens than these are refused
};

// What tokenising a text of this length takes if it has no long run of characters without a break, as no prose, code or
// table of numbers has. With a plan that holds this, longer runs are tokenised where less text is left to.
constexpr uint64_t tokenise_bytes_max(uint64_t text_bytes) { return 512 * KiB + 256 * text_bytes; }

class Tokenizer {
  public:
    // The vocabulary must outlive this. Some tens of milliseconds: the vocabulary's own tokenizer is tried out, to know
    // how far it recurses. That also makes the tables that llama.cpp keeps for the process (some 3 MiB).
    explicit Tokenizer(const llama_vocab *vocab);

    // The tokens that llama.cpp makes of the text.
    [[nodiscard]] std::vector<Token> tokenise(const std::string &text, const TokeniseOptions &options) const;
    // The same, but no control token is read where the text is literal.
    [[nodiscard]] std::vector<Token> tokenise(const PromptText &text, const TokeniseOptions &options) const;

    // What tokenising this text can take at most. Looks at the text once.
    [[nodiscard]] uint64_t bytes_needed(std::string_view text) const;

    // Where the text of a control token stands in `text`, as if control tokens were read in it.
    [[nodiscard]] std::vector<TextSpan> control_tokens_in(const std::string &text) const;

    [[nodiscard]] const llama_vocab *vocab() const { return vocab_; }

  private:
    struct Run { // the longest stretch of a text that one match of a regular expression can cover
        uint64_t chars = 0;
        uint64_t begin = 0; // byte
    };
    struct Piece {
        TextSpan span;
        Token token = -1; // a special token, or -1 for text
    };

    void check_special_tokens() const;
    void try_out();
    [[nodiscard]] Run longest_run(std::string_view text) const;
    void refuse_costly(std::string_view text, const TokeniseOptions &options) const;
    [[nodiscard]] std::vector<Piece> split_at_special(const PromptText &text, bool parse_special) const;
    [[nodiscard]] std::vector<Token> tokens_of(const std::string &text, bool add_special, bool parse_special) const;
    [[nodiscard]] std::vector<Token> tokens_of(const PromptText &text, const TokeniseOptions &options) const;

    const llama_vocab *vocab_;
    std::vector<Token> special_;        // tokens that are found in a text before all others, in llama.cpp's order
    uint64_t stack_bytes_per_char_ = 0; // touched at most, for each character of a run
    bool breaks_at_spaces_ = true;      // no match covers a space between two letters
    bool splits_specially_ = false;     // a tokenizer that looks at the text as a whole
};

} // namespace larder

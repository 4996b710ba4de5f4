// text.h — tokenising with bounded stack, memory and time, for texts and model files that are not trusted.
//
// llama.cpp's tokenizers recurse once for each character of a run and take memory in proportion to the text; some take
// time in proportion to its square. A Tokenizer gives the same tokens, and bounds all three:
//   stack   a text with a long run is tokenised on its own thread, with a stack mapped for that run. The use of the
//           caller's stack does not depend on the text.
//   memory  bytes_needed() is an upper bound for a text; tokenise() refuses a text that needs more than the limit.
//   time    a text that would take llama.cpp more than some seconds is refused.
//
// Threads: any number may use one Tokenizer at the same time. Units: bytes.
// Errors: Error(usage) for a text that is refused, Error(model) for an unusable vocabulary, Error(io) if a thread or
// its stack cannot be allocated.
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

// A part of a text, as byte offsets.
struct TextSpan {
    uint64_t begin = 0;
    uint64_t end = 0; // after the last byte
};

// A text whose control tokens are parsed, except in the parts that came from users.
struct PromptText {
    std::string text;
    std::vector<TextSpan> literal; // ascending, disjoint: control tokens are not parsed there
};

struct TokeniseOptions {
    bool add_special = false;   // add the model's begin-of-text and end-of-text tokens, where the model requires them
    bool parse_special = false; // parse control tokens, such as <|im_end|>, in the text
    uint64_t bytes_max = std::numeric_limits<uint64_t>::max();  // limit of the memory for tokenising
    uint64_t tokens_max = std::numeric_limits<uint64_t>::max(); // limit of the number of control tokens
};

// Memory for tokenising a text of this length without long unbroken runs of characters; prose, code and tables have
// none. If the plan includes this much, longer runs can be tokenised in shorter texts.
constexpr uint64_t tokenise_bytes_max(uint64_t text_bytes) { return 512 * KiB + 256 * text_bytes; }

class Tokenizer {
  public:
    // The vocabulary must outlive this object. Takes some tens of milliseconds, because it runs the vocabulary's
    // tokenizer to measure how deeply it recurses. This also builds the tables that llama.cpp keeps for the process
    // (about 3 MiB).
    explicit Tokenizer(const llama_vocab *vocab);

    // The tokens that llama.cpp makes of the text.
    [[nodiscard]] std::vector<Token> tokenise(const std::string &text, const TokeniseOptions &options) const;
    // The same, but control tokens are not parsed in the literal spans.
    [[nodiscard]] std::vector<Token> tokenise(const PromptText &text, const TokeniseOptions &options) const;

    // Upper bound of the memory for tokenising this text. Scans the text once.
    [[nodiscard]] uint64_t bytes_needed(std::string_view text) const;

    // Where the spellings of control tokens occur in `text`.
    [[nodiscard]] std::vector<TextSpan> control_tokens_in(const std::string &text) const;

    [[nodiscard]] const llama_vocab *vocab() const { return vocab_; }

  private:
    struct Run { // longest part of a text that one match of a regular expression can cover
        uint64_t chars = 0;
        uint64_t begin = 0; // byte offset
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
    std::vector<Token> special_;        // tokens that are split off before all others, in llama.cpp's order
    uint64_t stack_bytes_per_char_ = 0; // upper bound of the touched stack per character of a run
    bool breaks_at_spaces_ = true;      // no match covers a space between two letters
    bool splits_specially_ = false;     // the tokenizer processes the text as a whole
};

} // namespace larder

// error.h — the one error type of larder.
//
// An Error says in one line what went wrong with which thing, and what the user can do about it. It is thrown where the
// fault is found and gets context added on the way up (`throw error.within("loading model.gguf")`). The cli prints it
// and turns its kind into the exit code. Errors never cross a C callback, a thread or an op of ggml: there the cause is
// latched (see compute.h) and thrown again on the session's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace larder {

enum class ErrorKind {
    usage,   // a flag or argument is wrong
    model,   // the file is not a model larder can run, or is damaged
    budget,  // the memory budget cannot hold what was asked for
    io,      // the operating system refused a read, a write or memory
    engine,  // llama.cpp refused
    differs, // verify found logits that are not equal
};

// The text with control characters (of a hostile file name or metadata value) replaced by '?': one line that does
// nothing to a terminal. Bytes of UTF-8 stay, but for the C1 controls.
std::string printable(std::string_view text);
// The same of at most `characters_max` characters, with "…" in place of the rest: for text of any length that a file or
// a user gave.
std::string printable(std::string_view text, size_t characters_max);
// Enough to recognise a name or a value in a message.
inline constexpr size_t quoted_characters_max = 80;

// The exit code of the process for an error of this kind: 2 for usage, 3 for budget, otherwise 1.
int exit_code(ErrorKind kind);

// What a remedy changes, for code that adds or removes remedies further up.
enum class RemedyKind {
    other,
    larger_budget,   // amount: bytes of the smallest budget that works
    smaller_budget,  // amount: bytes of the largest budget that the machine gives
    other_machine,   // make room, raise a limit, or accept the risk
    shorter_context, // amount: tokens that fit, 0 where that is not known
    smaller_model,
    smaller_reserve,
    cache_share, // amount: tenths of a percent
    arena,       // amount: bytes
    shorter_text,
};

// One of the things that the user can do.
struct Remedy {
    RemedyKind kind = RemedyKind::other;
    std::string text;    // a clause in the imperative: "lower -c"
    uint64_t amount = 0; // what the text names, in the unit of its kind
};

class Error : public std::exception {
  public:
    // `what` is one line without a full stop; `remedies` are what the user can do, the best first.
    Error(ErrorKind kind, std::string what, std::vector<Remedy> remedies);
    // With one remedy, or none where the text is empty.
    Error(ErrorKind kind, std::string what, std::string remedy = {});

    // An Error(io) that names the errno value as text.
    static Error from_errno(int errno_value, std::string_view doing, std::string remedy = {});

    // The same error with "context: " before its text.
    [[nodiscard]] Error within(std::string_view context) const;
    // The same error with one more remedy, without those of a kind, and with others.
    [[nodiscard]] Error with_remedy(Remedy remedy) const;
    [[nodiscard]] Error without_remedies(RemedyKind kind) const;
    [[nodiscard]] Error with_remedies(std::vector<Remedy> remedies) const;

    [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }
    [[nodiscard]] const std::string &message() const noexcept { return message_; }
    [[nodiscard]] const std::vector<Remedy> &remedies() const noexcept { return remedies_; }
    // The first of a kind; null if there is none. Valid as long as the Error.
    [[nodiscard]] const Remedy *find_remedy(RemedyKind kind) const noexcept;
    // All remedies in one text: "a, or b, or c".
    [[nodiscard]] const std::string &remedy() const noexcept { return remedy_; }
    // "message; remedy" in one line. Valid as long as the Error.
    [[nodiscard]] const char *what() const noexcept override { return line_.c_str(); }

  private:
    ErrorKind kind_;
    std::string message_;
    std::vector<Remedy> remedies_;
    std::string remedy_;
    std::string line_;
};

// The Error(io) for a file that could not be opened: "cannot open PATH: CAUSE", with the remedy for that cause.
Error cannot_open(std::string_view path, int errno_value);

} // namespace larder

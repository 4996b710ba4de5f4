// error.h — the error type of larder.
//
// An Error describes in one line which operation failed on which object, and how the user can correct it. It is thrown
// where the fault is found. Callers add context (`throw error.within("loading model.gguf")`). The cli prints it and
// derives the exit code from its kind. An Error never crosses a C callback, a thread or an operation of ggml: there the
// cause is stored (see compute.h) and thrown later on the session's thread.
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
    model,   // the file is not a model that larder can run, or it is damaged
    budget,  // the memory budget is too small for the request
    io,      // the operating system refused a read, a write or memory
    engine,  // llama.cpp reported a failure
    differs, // verify found different logits
};

// Returns `text` as one line that cannot control a terminal: each control character, including the C1 controls, becomes
// '?'. File names and metadata values can contain such characters. Other bytes of UTF-8 are kept.
std::string printable(std::string_view text);
// The same with at most `characters_max` characters. "…" replaces the rest. For text of unbounded length from a file or
// a user.
std::string printable(std::string_view text, size_t characters_max);
// Long enough to recognise a name or a value in a message.
inline constexpr size_t quoted_characters_max = 80;

// The exit code of the process for an error of this kind: 2 for usage, 3 for budget, otherwise 1.
int exit_code(ErrorKind kind);

// What a remedy changes. Callers use the kind to add or remove remedies.
enum class RemedyKind {
    other,
    larger_budget,   // amount: bytes of the smallest budget that works
    smaller_budget,  // amount: bytes of the largest budget that the machine allows
    other_machine,   // free memory, raise a limit, or accept the risk
    shorter_context, // amount: tokens that fit, 0 if unknown
    smaller_model,
    smaller_reserve,
    cache_share, // amount: tenths of a percent
    arena,       // amount: bytes
    shorter_text,
};

// One action that the user can take.
struct Remedy {
    RemedyKind kind = RemedyKind::other;
    std::string text;    // an imperative clause: "lower -c"
    uint64_t amount = 0; // the amount named in the text, in the unit of its kind
};

class Error : public std::exception {
  public:
    // `what` is one line without a full stop. `remedies` are ordered, the best first.
    Error(ErrorKind kind, std::string what, std::vector<Remedy> remedies);
    // With one remedy, or with none if the text is empty.
    Error(ErrorKind kind, std::string what, std::string remedy = {});

    // An Error(io) with the text of the errno value. If a limit of files was reached, the remedy is to raise it.
    static Error from_errno(int errno_value, std::string_view doing, std::string remedy = {});

    // The same error with "context: " in front of its message.
    [[nodiscard]] Error within(std::string_view context) const;
    // Copies of this error: with one more remedy, without the remedies of one kind, with other remedies.
    [[nodiscard]] Error with_remedy(Remedy remedy) const;
    [[nodiscard]] Error without_remedies(RemedyKind kind) const;
    [[nodiscard]] Error with_remedies(std::vector<Remedy> remedies) const;

    [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }
    [[nodiscard]] const std::string &message() const noexcept { return message_; }
    [[nodiscard]] const std::vector<Remedy> &remedies() const noexcept { return remedies_; }
    // The first remedy of this kind; null if there is none. The pointer is valid as long as this Error.
    [[nodiscard]] const Remedy *find_remedy(RemedyKind kind) const noexcept;
    // All remedies as one text: "a, or b, or c".
    [[nodiscard]] const std::string &remedy() const noexcept { return remedy_; }
    // "message; remedy" as one line. Valid as long as this Error.
    [[nodiscard]] const char *what() const noexcept override { return line_.c_str(); }

  private:
    ErrorKind kind_;
    std::string message_;
    std::vector<Remedy> remedies_;
    std::string remedy_;
    std::string line_;
};

// An Error(io) for a file that could not be opened: "cannot open PATH: CAUSE", with a remedy for that errno value.
Error cannot_open(std::string_view path, int errno_value);

} // namespace larder

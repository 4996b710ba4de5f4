// error.h — the one error type of larder.
//
// An Error says in one line what went wrong with which thing, and what the user can do about it. It is thrown where the
// fault is found and gets context added on the way up (`throw error.within("loading model.gguf")`). The cli prints it
// and turns its kind into the exit code. Errors never cross a C callback, a thread or an op of ggml: there the cause is
// latched (see compute.h) and thrown again on the session's thread.
#pragma once

#include <exception>
#include <string>
#include <string_view>

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

// The exit code of the process for an error of this kind: 2 for usage, 3 for budget, otherwise 1.
int exit_code(ErrorKind kind);

class Error : public std::exception {
  public:
    // `what` is one line without a full stop; `remedy` is what the user can do, or empty where nothing is to be done.
    Error(ErrorKind kind, std::string what, std::string remedy = {});

    // An Error(io) that names the errno value as text.
    static Error from_errno(int errno_value, std::string_view doing, std::string remedy = {});

    // The same error with "context: " before its text.
    [[nodiscard]] Error within(std::string_view context) const;

    [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }
    [[nodiscard]] const std::string &message() const noexcept { return message_; }
    [[nodiscard]] const std::string &remedy() const noexcept { return remedy_; }
    // "message; remedy" in one line. Valid as long as the Error.
    [[nodiscard]] const char *what() const noexcept override { return line_.c_str(); }

  private:
    ErrorKind kind_;
    std::string message_;
    std::string remedy_;
    std::string line_;
};

// The Error(io) for a file that could not be opened: "cannot open PATH: CAUSE", with the remedy for that cause.
Error cannot_open(std::string_view path, int errno_value);

} // namespace larder

// ggml_log.h — the log and the abort callback of ggml and llama.cpp: one for the process, shared by all threads.
//
// ggml and llama.cpp report why a call failed through their log only, and the log has one callback for the process.
// take_over_ggml_log() installs that callback. A LoggedErrors object collects the error lines of its own thread:
//
//     const LoggedErrors log;
//     if (llama_model_load_from_file(...) == nullptr) { throw Error(ErrorKind::model, log.all()); }
//
// Lines that other threads log, ggml's compute threads among them, are not collected.
//
// Threads: all functions may be called on any thread. A LoggedErrors object belongs to the thread that made it.
#pragma once

#include "base/error.h"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace larder {

// Installs the log callback and the abort callback. Only the first call does anything; the constructor of LoggedErrors
// calls it too. llama.cpp keeps a second copy of the log callback: a program that links llama.cpp passes what
// ggml_log_get() returns to llama_log_set() once.
void take_over_ggml_log();

// Whether all lines go to standard error. They go nowhere until the first call.
void show_ggml_log(bool show);

// The error lines of this thread while the object lives. Of several objects on a thread, the newest collects. They are
// destroyed in the reverse order of their construction. Collecting a line allocates nothing.
class LoggedErrors {
  public:
    LoggedErrors();
    ~LoggedErrors();
    LoggedErrors(const LoggedErrors &) = delete;
    LoggedErrors &operator=(const LoggedErrors &) = delete;

    // The first line, empty if there was none. Later lines often report what failed in consequence.
    [[nodiscard]] std::string first() const;
    // All lines, joined with "; ". Both are printable() (base/error.h) and at most bytes_max long.
    [[nodiscard]] std::string all() const;

    static constexpr size_t bytes_max = 2000;

  private:
    friend struct GgmlCallbacks;
    void add(std::string_view text) noexcept;
    void end_line() noexcept;
    [[nodiscard]] std::string shown(size_t bytes) const;

    static constexpr std::string_view cut_mark = "…"; // at the end of what was longer

    LoggedErrors *const outer_; // collects again when this object is gone
    std::array<char, bytes_max - cut_mark.size()> text_{};
    size_t used_ = 0;
    size_t line_begin_ = 0;
    size_t first_bytes_ = 0; // 0 until the first line has ended
    bool line_open_ = false;
};

// ggml ends the process when an allocation fails inside it. `make_error` makes the Error that is printed then; without
// it the error is a plain "out of memory".
using MakeOutOfMemoryError = Error (*)(const std::string &what);
void set_ggml_out_of_memory_error(MakeOutOfMemoryError make_error);

} // namespace larder

// ggml_log.h — the log and the abort callback of ggml and llama.cpp: one for the process, shared by all threads.
//
// ggml and llama.cpp report the cause of a failed call only in their log, and the log has one callback for the process.
// take_over_ggml_log() installs that callback. A LoggedErrors object collects the error lines of its own thread:
//
//     const LoggedErrors log;
//     if (llama_model_load_from_file(...) == nullptr) { throw Error(ErrorKind::model, log.all()); }
//
// Lines of other threads, including ggml's compute threads, are not collected.
//
// Threads: any for all functions. A LoggedErrors object belongs to the thread that made it.
#pragma once

#include "base/error.h"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace larder {

// Installs the log callback and the abort callback. Only the first call has an effect. The constructor of LoggedErrors
// also calls it. llama.cpp keeps a second copy of the log callback: a program that links llama.cpp must pass the result
// of ggml_log_get() to llama_log_set() once.
void take_over_ggml_log();

// Whether all log lines are written to standard error. They are discarded until the first call.
void show_ggml_log(bool show);

// Collects the error lines of this thread while the object exists. Of several objects on a thread, the newest collects.
// They must be destroyed in the reverse order of their construction. Collecting a line allocates nothing.
class LoggedErrors {
  public:
    LoggedErrors();
    ~LoggedErrors();
    LoggedErrors(const LoggedErrors &) = delete;
    LoggedErrors &operator=(const LoggedErrors &) = delete;

    // The first line; empty if there was none. Later lines often report consequences of the first failure.
    [[nodiscard]] std::string first() const;
    // All lines, joined with "; ". Both are printable() (base/error.h) and at most bytes_max long.
    [[nodiscard]] std::string all() const;

    static constexpr size_t bytes_max = 800;

  private:
    friend struct GgmlCallbacks;
    void add(std::string_view text) noexcept;
    void end_line() noexcept;
    [[nodiscard]] std::string shown(size_t bytes) const;

    static constexpr std::string_view cut_mark = "…"; // appended to a text that was cut

    LoggedErrors *const outer_; // collects again after this object is destroyed
    std::array<char, bytes_max - cut_mark.size()> text_{};
    size_t used_ = 0;
    size_t line_begin_ = 0;
    size_t first_bytes_ = 0; // 0 until the first line has ended
    bool line_open_ = false;
};

// ggml ends the process when one of its allocations fails. `make_error` makes the Error that is printed then; without
// it a plain "out of memory" is printed.
using MakeOutOfMemoryError = Error (*)(const std::string &what);
void set_ggml_out_of_memory_error(MakeOutOfMemoryError make_error);

} // namespace larder

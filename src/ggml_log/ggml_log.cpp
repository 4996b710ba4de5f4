#include "ggml_log/ggml_log.h"

#include "base/check.h"

#include <ggml.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace larder {

namespace {

thread_local LoggedErrors *innermost = nullptr;
std::atomic<bool> shown_on_stderr{false};
std::atomic<MakeOutOfMemoryError> make_out_of_memory_error{nullptr};

// ggml logs this for every tensor that it repacks. larder repacks a few rows at a time.
constexpr std::string_view repack_note = "repack: repack tensor";

[[noreturn]] void end_process(const Error &error) {
    std::fputs(("error: " + std::string(error.what()) + "\n").c_str(), stderr);
    std::_Exit(exit_code(error.kind()));
}

// ggml_init() asserts this after its allocation. It is the first function that allocates a large amount.
bool is_failed_allocation(std::string_view message) {
    return message.find("mem_buffer != NULL") != std::string_view::npos;
}

Error error_of(std::string_view message) {
    if (is_failed_allocation(message)) {
        const std::string what = "out of memory in llama.cpp";
        const MakeOutOfMemoryError make_error = make_out_of_memory_error.load();
        return make_error != nullptr ? make_error(what) : Error(ErrorKind::io, what, "free memory and try again");
    }
    return {ErrorKind::engine, "llama.cpp stopped at an impossible state: " + std::string(message),
            "the model's metadata may be damaged: get the file again, or report this"};
}

} // namespace

// The callbacks for ggml. They throw no exception.
struct GgmlCallbacks {
    static void on_log(ggml_log_level level, const char *text, void * /*user*/) noexcept {
        if (innermost != nullptr) {
            if (level != GGML_LOG_LEVEL_CONT) {
                innermost->end_line();
            }
            // A text that continues a line belongs to the errors only while an error line is open.
            if (level == GGML_LOG_LEVEL_ERROR || (level == GGML_LOG_LEVEL_CONT && innermost->line_open_)) {
                innermost->add(text);
            }
        }
        if (shown_on_stderr.load(std::memory_order_relaxed) && !std::string_view(text).starts_with(repack_note)) {
            std::fputs(text, stderr);
        }
    }

    // All compute threads may abort at once. The first one prints its error and ends the process; the others wait.
    static void on_abort(const char *message) noexcept {
        static std::atomic_flag ending;
        if (ending.test_and_set()) {
            while (true) {
                pause();
            }
        }
        end_process(error_of(message));
    }
};

void take_over_ggml_log() {
    static std::once_flag once;
    std::call_once(once, [] {
        ggml_log_set(&GgmlCallbacks::on_log, nullptr);
        ggml_set_abort_callback(&GgmlCallbacks::on_abort);
    });
}

void show_ggml_log(bool show) { shown_on_stderr = show; }

void set_ggml_out_of_memory_error(MakeOutOfMemoryError make_error) { make_out_of_memory_error = make_error; }

LoggedErrors::LoggedErrors() : outer_(innermost) {
    take_over_ggml_log();
    innermost = this;
}

LoggedErrors::~LoggedErrors() {
    LARDER_CHECK(innermost == this);
    innermost = outer_;
}

void LoggedErrors::add(std::string_view text) noexcept {
    const auto put = [this](std::string_view bytes) {
        const size_t count = std::min(bytes.size(), text_.size() - used_);
        std::memcpy(text_.data() + used_, bytes.data(), count);
        used_ += count;
    };
    // A newline inside the text is part of a quoted name.
    const bool ends_line = text.ends_with('\n');
    text.remove_suffix(text.size() - (text.find_last_not_of('\n') + 1));
    const bool blank = text.find_first_not_of(' ') == std::string_view::npos;
    if (!blank && !line_open_) {
        put(used_ > 0 ? "; " : "");
        line_begin_ = used_;
        line_open_ = true;
    }
    if (line_open_) {
        put(text);
    }
    if (ends_line) {
        end_line();
    }
}

void LoggedErrors::end_line() noexcept {
    if (!line_open_) {
        return;
    }
    while (used_ > line_begin_ && text_.at(used_ - 1) == ' ') {
        used_--;
    }
    line_open_ = false;
    first_bytes_ = first_bytes_ == 0 ? used_ : first_bytes_;
}

std::string LoggedErrors::shown(size_t bytes) const {
    std::string_view text(text_.data(), bytes);
    const bool cut = bytes == text_.size();
    if (cut) { // do not cut inside a character: continuation bytes are 10xxxxxx
        while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U) {
            text.remove_suffix(1);
        }
        text.remove_suffix(text.empty() ? 0 : 1);
    }
    return printable(text) + std::string(cut ? cut_mark : "");
}

std::string LoggedErrors::first() const { return shown(first_bytes_ > 0 ? first_bytes_ : used_); }
std::string LoggedErrors::all() const { return shown(used_); }

} // namespace larder

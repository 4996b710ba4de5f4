#include "engine/llama_log.h"

#include "base/error.h"

#include "common.h"
#include "llama.h"
#include "log.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace larder {

namespace {

std::mutex errors_mutex;
std::string errors; // guarded by errors_mutex
std::atomic<bool> show{false};

constexpr size_t errors_kept = 2000; // bytes; the first complaint is the cause, the rest is its echo

// ggml says this of whatever it repacks, which here is a few rows at a time.
constexpr char repack_note[] = "repack: repack tensor";

void keep(const char *text) {
    const std::lock_guard lock(errors_mutex);
    if (errors.size() > errors_kept) {
        return;
    }
    std::string line = text;
    while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) {
        line.pop_back();
    }
    if (line.empty()) {
        return;
    }
    errors += errors.empty() ? line : "; " + line;
}

void on_log(ggml_log_level level, const char *text, void * /*user*/) {
    if (level == GGML_LOG_LEVEL_ERROR) {
        keep(text);
    }
    if (show.load(std::memory_order_relaxed) && std::strncmp(text, repack_note, sizeof(repack_note) - 1) != 0) {
        std::fputs(text, stderr);
    }
}

// ggml ends the process where a model's metadata contradicts itself in a way it did not expect. That is one line too,
// though all compute threads may come here at once.
void on_abort(const char *message) {
    static std::atomic_flag said;
    if (said.test_and_set()) {
        while (true) {
            pause(); // until the first one has ended the process
        }
    }
    std::fputs(("error: llama.cpp stopped at an impossible state: " + printable(message) +
                "; the model's metadata may be damaged: get the file again, or report this\n")
                   .c_str(),
               stderr);
    std::_Exit(1);
}

} // namespace

void capture_llama_log(bool verbose) {
    show = verbose;
    llama_log_set(on_log, nullptr);
    ggml_set_abort_callback(on_abort);
    common_log_set_verbosity_thold(verbose ? LOG_DEFAULT_DEBUG : -1); // the chat templates' own log
}

std::string take_llama_errors() {
    const std::lock_guard lock(errors_mutex);
    std::string taken;
    taken.swap(errors);
    return taken;
}

} // namespace larder

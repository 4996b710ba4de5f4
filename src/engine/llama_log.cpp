#include "engine/llama_log.h"

#include "common.h"
#include "llama.h"
#include "log.h"

#include <atomic>
#include <cstdio>
#include <mutex>

namespace larder {

namespace {

std::mutex errors_mutex;
std::string errors; // guarded by errors_mutex
std::atomic<bool> show{false};

constexpr size_t errors_kept = 2000; // bytes; the first complaint is the cause, the rest is its echo

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
    if (show.load(std::memory_order_relaxed)) {
        std::fputs(text, stderr);
    }
}

} // namespace

void capture_llama_log(bool verbose) {
    show = verbose;
    llama_log_set(on_log, nullptr);
    common_log_set_verbosity_thold(verbose ? LOG_DEFAULT_DEBUG : -1); // the chat templates' own log
}

std::string take_llama_errors() {
    const std::lock_guard lock(errors_mutex);
    std::string taken;
    taken.swap(errors);
    return taken;
}

} // namespace larder

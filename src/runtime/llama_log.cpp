#include "runtime/llama_log.h"

#include "compute/compute.h"

#include "machine/address_limits.h"
#include "machine/out_of_memory.h"

#include "common.h"
#include "llama.h"
#include "log.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

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
    if (std::strstr(message, "mem_buffer != NULL") != nullptr) { // of ggml_init(), the first to want a large block
        const Error error = out_of_memory("out of memory in llama.cpp");
        std::fputs(("error: " + std::string(error.what()) + "\n").c_str(), stderr);
        std::_Exit(exit_code(error.kind()));
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

void start_llama(bool verbose) {
    capture_llama_log(verbose);
    llama_backend_init();
    expert_buffer_type(); // registered before the first model
}

std::string take_llama_errors() {
    const std::lock_guard lock(errors_mutex);
    std::string taken;
    taken.swap(errors);
    return taken;
}

Error llama_refused(ErrorKind kind, const std::string &what, std::string remedy) {
    const std::string why = take_llama_errors();
    const auto says = [&](const char *word) { return why.find(word) != std::string::npos; };
    if (address_limits().any() && (says("allocate") || says("bad_alloc"))) {
        return out_of_memory(what + ": " + why);
    }
    return {kind, what + ": " + why, std::move(remedy)};
}

} // namespace larder

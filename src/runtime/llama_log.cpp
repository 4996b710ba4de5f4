#include "runtime/llama_log.h"

#include "compute/compute.h"
#include "machine/address_limits.h"
#include "machine/out_of_memory.h"

#include "common.h"
#include "llama.h"
#include "log.h"

#include <mutex>
#include <string_view>
#include <utility>

namespace larder {

void capture_llama_log(bool verbose) {
    static std::once_flag once;
    std::call_once(once, [] {
        take_over_ggml_log();
        ggml_log_callback callback = nullptr;
        void *data = nullptr;
        ggml_log_get(&callback, &data);
        llama_log_set(callback, data); // llama.cpp calls its own copy of the callback
        set_ggml_out_of_memory_error([](const std::string &what) { return out_of_memory(what); });
    });
    show_ggml_log(verbose);
    common_log_set_verbosity_thold(verbose ? LOG_DEFAULT_DEBUG : -1);
}

void start_llama(bool verbose) {
    capture_llama_log(verbose);
    llama_backend_init();
    expert_buffer_type(); // must be registered before the first model is built
}

Error llama_refused(ErrorKind kind, const std::string &what, const LoggedErrors &logged, std::string remedy) {
    const std::string why = logged.all();
    const auto says = [&](std::string_view word) { return why.find(word) != std::string::npos; };
    const std::string message = why.empty() ? what : what + ": " + why;
    if (address_limits().any() && (says("allocate") || says("bad_alloc"))) {
        return out_of_memory(message);
    }
    return {kind, message, std::move(remedy)};
}

} // namespace larder

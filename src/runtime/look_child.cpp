#include "runtime/look_child.h"

#include "base/bytes.h"
#include "base/error.h"
#include "ggml_log/ggml_log.h"
#include "machine/address_limits.h"
#include "machine/out_of_memory.h"
#include "machine/proc_files.h"
#include "machine/process_memory.h"
#include "runtime/measure.h"
#include "runtime/spec_json.h"

#include "ggml.h"
#include "gguf.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

namespace larder {

namespace {

using Json = nlohmann::json;

// A vocabulary of 150,000 tokens, 48 layers and a context of 128 Ki tokens take about 100 MiB.
constexpr uint64_t memory_max = 1 * GiB;
constexpr uint64_t memory_for_metadata = 32; // times the bytes of the metadata
constexpr uint64_t cell_bytes_max = 96;      // llama.cpp's list of KV cells takes about 50 bytes per token

void send_line(int fd, const Json &json) {
    const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    for (size_t done = 0; done < text.size();) {
        const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
        if (n < 0 && errno != EINTR) {
            ::_exit(1);
        }
        done += n > 0 ? static_cast<size_t>(n) : 0;
    }
}

// Keeps a lower limit that was set outside larder.
void set_soft_limit(__rlimit_resource_t resource, uint64_t value, const rlimit &original) {
    const rlimit limit{std::min<rlim_t>(value, original.rlim_cur), original.rlim_max};
    ::setrlimit(resource, &limit);
}

class Child {
  public:
    Child(int socket, const std::vector<const ModelLayout *> &layouts, uint64_t file_rss_bytes)
        : socket_(socket), layouts_(layouts), file_rss_bytes_(file_rss_bytes), models_(layouts.size()) {
        ::getrlimit(RLIMIT_DATA, &original_data_);
        ::getrlimit(RLIMIT_CPU, &original_cpu_);
        outside_limits_ = address_limits();
        data_at_start_ = KeyedFile("/proc/self/status").find("VmData").value_or(0) * KiB;
        for (const ModelLayout *layout : layouts) {
            metadata_bytes_ += gguf_get_meta_size(layout->metadata.get());
        }
    }

    [[noreturn]] void run() {
        for (std::string line; read_line(line);) {
            send_line(socket_, answer(Json::parse(line)));
        }
        ::_exit(0);
    }

  private:
    bool read_line(std::string &line) {
        line.clear();
        for (char c = '\0';;) {
            const ssize_t n = ::read(socket_, &c, 1);
            if (n == 1 && c == '\n') {
                return true;
            }
            if (n == 1) {
                line += c;
            } else if (n == 0 || errno != EINTR) {
                return false;
            }
        }
    }

    Json answer(const Json &question) {
        try {
            const std::string what = question.at("ask");
            if (what == "held") {
                return {{"held_bytes", held_bytes()}};
            }
            const size_t index = question.at("index");
            if (what == "model") {
                return model(index, kernels_named(question.at("kernels").get<std::string>()));
            }
            return context(index, context_spec_from(question.at("context")));
        } catch (const Error &error) {
            return {{"error", to_json(is_of_limit(error) ? memory_error() : error)}};
        } catch (const std::bad_alloc &) {
            return {{"error", to_json(memory_error())}};
        } catch (const std::exception &error) {
            return {{"error", to_json(Error(ErrorKind::model, fmt::format("{}: {}", file(), error.what()),
                                            "get the file again"))}};
        }
    }

  public:
    // The error for a failed allocation. Distinguishes the limit of this child from one that was set outside larder.
    [[nodiscard]] Error memory_error() const {
        if (own_limit_) {
            return {ErrorKind::model,
                    fmt::format("{}: llama.cpp wants more than {} for it without its weights", file(),
                                format_bytes(allowed_)),
                    "the settings in the file are out of proportion: get it again"};
        }
        ::setrlimit(RLIMIT_DATA, &original_data_); // otherwise the error would quote the limit that this child set
        return out_of_memory("out of memory in llama.cpp");
    }
    [[nodiscard]] const std::string &file() const { return layouts_.front()->files.front(); }

  private:
    // llama.cpp could not allocate, and the error names an address limit: the one that this child set.
    [[nodiscard]] bool is_of_limit(const Error &error) const {
        return own_limit_ && error.message().find("RLIMIT_DATA") != std::string::npos;
    }

    void limit_question(uint64_t cells) {
        allowed_ = memory_max + metadata_bytes_ * memory_for_metadata + cells * cell_bytes_max;
        set_soft_limit(RLIMIT_DATA, data_at_start_ + allowed_, original_data_);
        own_limit_ = data_at_start_ + allowed_ < original_data_.rlim_cur && !outside_limits_.any();
        rusage used{};
        ::getrusage(RUSAGE_SELF, &used);
        const auto seconds = static_cast<uint64_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
        set_soft_limit(RLIMIT_CPU, seconds + look_seconds_max, original_cpu_);
    }

    // The child has not mapped the file pages that only the parent touched, so the larger of both figures counts.
    [[nodiscard]] uint64_t held_bytes() const {
        malloc_trim(0);
        const ProcessMemory memory = process_memory();
        return memory.anonymous_bytes + std::max(file_rss_bytes_, memory.rss_bytes - memory.anonymous_bytes);
    }

    Json model(size_t index, Kernels kernels) {
        limit_question(0);
        models_.at(index).reset();
        malloc_trim(0);
        models_[index] = build_without_memory(layouts_[index]->files.front(), kernels);
        const ModelFacts facts = model_facts(models_[index].get());
        return {{"repacked", facts.places.repacked},
                {"tied", facts.places.tied},
                {"aliased_bytes", facts.aliased_bytes},
                {"n_vocab", facts.n_vocab}};
    }

    Json context(size_t index, const ContextSpec &resolved) {
        limit_question(uint64_t{resolved.ctx_tokens} * resolved.sequences);
        const ContextFacts facts = context_facts(models_.at(index).get(), resolved, layouts_[index]->files.front());
        return {{"resident_bytes", facts.resident_bytes},     {"kv_bytes", facts.kv_bytes},
                {"compute_bytes", facts.compute_bytes},       {"process_bytes", facts.process_bytes},
                {"idle_writable_bytes", facts.idle.writable}, {"idle_bytes", facts.idle.all}};
    }

    int socket_;
    const std::vector<const ModelLayout *> &layouts_;
    uint64_t file_rss_bytes_;
    std::vector<ModelHandle> models_;
    rlimit original_data_{};
    rlimit original_cpu_{};
    uint64_t data_at_start_ = 0;
    uint64_t metadata_bytes_ = 0;
    uint64_t allowed_ = 0;
    AddressLimits outside_limits_;
    bool own_limit_ = true; // whether the limit of this child is the lower one
};

// ggml aborts on some models that contradict themselves. The answer then quotes ggml's message.
int abort_socket = -1;
const Child *aborted = nullptr;

void on_abort(const char *message) {
    const bool allocation = std::strstr(message, "mem_buffer != NULL") != nullptr; // the assertion of ggml_init()
    const Error error =
        allocation ? aborted->memory_error()
                   : Error(ErrorKind::model,
                           fmt::format("{}: llama.cpp stops at an impossible state: {}", aborted->file(), message),
                           "the file's settings contradict each other: get it again, or report this");
    send_line(abort_socket, {{"error", to_json(error)}});
    ::_exit(1);
}

} // namespace

void answer_looks(int socket, const std::vector<const ModelLayout *> &layouts, uint64_t file_rss_bytes) {
    Child child(socket, layouts, file_rss_bytes);
    abort_socket = socket;
    aborted = &child;
    take_over_ggml_log(); // the first call also sets the abort callback
    ggml_set_abort_callback(on_abort);
    child.run();
}

} // namespace larder

#include "tensor_list.h"

#include "base/error.h"

#include <fmt/format.h>
#include <ggml-backend-impl.h>
#include <ggml-cpp.h>
#include <llama-cpp.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

namespace larder::make_model {
namespace {

// A buffer type whose buffers have addresses but no memory, so that a model of any size can be built to list its
// tensors. Nothing reads or writes these tensors: the callback that would fill them only records their names and
// shapes.
ggml_backend_buffer_type_t hollow_buffer_type() {
    constexpr size_t alignment = 64;
    static ggml_backend_buffer_type type = {
        .iface = {
            .get_name = [](ggml_backend_buffer_type_t) { return "hollow"; },
            .alloc_buffer =
                [](ggml_backend_buffer_type_t self, size_t size) {
                    ggml_backend_buffer_i iface = {};
                    iface.get_base = [](ggml_backend_buffer_t) -> void * {
                        alignas(alignment) static char base; // ggml only requires an aligned address that is not null
                        return &base;
                    };
                    return ggml_backend_buffer_init(self, iface, nullptr, size);
                },
            .get_alignment = [](ggml_backend_buffer_type_t) { return alignment; },
            .get_max_size = nullptr,
            .get_alloc_size = nullptr,
            .is_host = nullptr,
        },
        .device = nullptr,
        .context = nullptr,
    };
    return &type;
}

// Keeps llama.cpp's log off the terminal and records its first error, as long as the object exists.
class ErrorLog {
  public:
    ErrorLog() {
        llama_log_get(&previous_, &previous_data_);
        llama_log_set(&ErrorLog::receive, this);
    }
    ~ErrorLog() { llama_log_set(previous_, previous_data_); }
    ErrorLog(const ErrorLog &) = delete;
    ErrorLog &operator=(const ErrorLog &) = delete;

    // The first error since the last clear(). Later lines only report that loading failed.
    [[nodiscard]] const std::string &first() const { return first_; }
    void clear() { first_.clear(); }

  private:
    static void receive(ggml_log_level level, const char *text, void *data) {
        auto &log = *static_cast<ErrorLog *>(data);
        if (level == GGML_LOG_LEVEL_ERROR && log.first_.empty()) {
            log.first_ = text;
            while (log.first_.ends_with('\n')) {
                log.first_.pop_back();
            }
        }
    }

    std::string first_;
    ggml_log_callback previous_ = nullptr;
    void *previous_data_ = nullptr;
};

// A tensor with two uses (tied token embeddings) may be reported twice, but is stored once.
void note_tensor(ggml_tensor *tensor, void *data) {
    auto &tensors = *static_cast<std::vector<TensorShape> *>(data);
    if (std::ranges::find(tensors, tensor->name, &TensorShape::name) == tensors.end()) {
        TensorShape shape{tensor->name, {}};
        std::ranges::copy(tensor->ne, shape.extent.begin());
        tensors.push_back(std::move(shape));
    }
}

void declare_tensor(gguf_context *metadata, const std::string &name) {
    ggml_tensor tensor = {};
    tensor.type = GGML_TYPE_F32;
    std::ranges::fill(tensor.ne, 1);
    std::ranges::fill(tensor.nb, sizeof(float));
    ggml_set_name(&tensor, name.c_str());
    gguf_add_tensor(metadata, &tensor);
}

// The tensors, or nullopt if llama.cpp refuses. llama.cpp takes shapes from the architecture. From the metadata it uses
// only the names and the number of tensors; `fillers` is the number of names to add that no architecture has.
std::optional<std::vector<TensorShape>> try_to_build(const gguf_context *metadata,
                                                     const std::vector<std::string> &optional, int fillers) {
    const gguf_context_ptr trial(gguf_init_empty());
    gguf_set_kv(trial.get(), metadata);
    for (const std::string &name : optional) {
        declare_tensor(trial.get(), name);
    }
    for (int i = 0; i < fillers; ++i) {
        declare_tensor(trial.get(), fmt::format("filler.{}", i));
    }
    const std::array overrides = {
        llama_model_tensor_buft_override{".*", hollow_buffer_type()},
        llama_model_tensor_buft_override{nullptr, nullptr},
    };
    llama_model_params params = llama_model_default_params();
    params.tensor_buft_overrides = overrides.data();
    params.n_gpu_layers = 0;
    std::vector<TensorShape> tensors;
    const llama_model_ptr model(llama_model_init_from_user(trial.get(), note_tensor, &tensors, params));
    if (!model) {
        return std::nullopt;
    }
    return tensors;
}

// Parses the number of tensors from "... too many tensors created; expected 3, got 51".
std::optional<int> created_count(std::string_view message) {
    constexpr std::string_view before = ", got ";
    const size_t at = message.rfind(before);
    if (at == std::string_view::npos || message.find("tensors") == std::string_view::npos) {
        return std::nullopt;
    }
    int count = 0;
    const char *digits = message.data() + at + before.size();
    const auto [end, error] = std::from_chars(digits, message.data() + message.size(), count);
    return error == std::errc() && end != digits ? std::optional(count) : std::nullopt;
}

} // namespace

std::vector<TensorShape> list_tensors(const gguf_context *metadata, const std::vector<std::string> &optional) {
    ErrorLog log;
    // llama.cpp builds a model only if the metadata has as many tensors as the model; otherwise its error contains the
    // number. So the first attempt gets the number and the second gets the list.
    auto tensors = try_to_build(metadata, optional, 0);
    if (!tensors) {
        const auto count = created_count(log.first());
        if (count) {
            log.clear();
            tensors = try_to_build(metadata, optional, *count - static_cast<int>(optional.size()));
        }
    }
    if (!tensors) {
        throw Error(ErrorKind::engine, fmt::format("llama.cpp refuses a model of this shape: {}", log.first()));
    }
    for (const std::string &name : optional) {
        if (std::ranges::find(*tensors, name, &TensorShape::name) == tensors->end()) {
            throw Error(ErrorKind::engine,
                        fmt::format("llama.cpp does not know the tensor {} in this architecture", name));
        }
    }
    return *tensors;
}

} // namespace larder::make_model

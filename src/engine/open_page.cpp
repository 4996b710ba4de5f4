// Opening a model whose experts stay in a file mapping.
#include "engine/engine_impl.h"
#include "engine/llama_log.h"
#include "engine/measure.h"
#include "engine/page_load.h"
#include "engine/params.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>

namespace larder {

namespace {

// llama_model_set_tensor_data_t.
void on_tensor(ggml_tensor *tensor, void *load) { static_cast<PageLoad *>(load)->add(tensor); }

void refuse_what_page_cannot_do(const EngineOptions &options, const ModelLayout &layout) {
    if (options.kernels && repacks_experts(*options.kernels)) {
        throw Error(ErrorKind::usage,
                    fmt::format("residency 'page' with kernels '{}': repacked experts are no longer in the file, and "
                                "dropped memory that is not a file's comes back as zeros",
                                to_string(*options.kernels)),
                    "use --kernels plain or mixed");
    }
    if (layout.expert_tensors.empty()) {
        throw Error(ErrorKind::usage,
                    fmt::format("{} is a dense model: residency 'page' is about experts", layout.files.front()),
                    "use --residency arena or stock");
    }
}

} // namespace

bool PageLoad::is_expert(const ggml_tensor *tensor) const {
    return std::ranges::any_of(layout_.expert_tensors, [&](const ExpertTensor &expert) {
        return layout_.tensors[expert.tensor].name == tensor->name;
    });
}

void PageLoad::add(ggml_tensor *tensor) noexcept {
    ggml_backend_buffer_type *type = ggml_backend_buffer_get_type(tensor->buffer);
    if (type == mapped_buffer_type()) {
        if (const ExpertTensor *expert = experts_.bind(tensor)) {
            pager_.bind(*expert, &tensor->data);
        } else if (unbound_.empty()) {
            unbound_ = tensor->name;
        }
    } else if (!is_expert(tensor)) {
        weights_.add(tensor);
    } else if (elsewhere_.empty()) {
        elsewhere_ = tensor->name;
        buffer_type_ = ggml_backend_buft_name(type);
    }
}

void PageLoad::load(const std::function<void(uint64_t, uint64_t)> &progress) {
    if (!elsewhere_.empty()) {
        throw Error(ErrorKind::engine,
                    fmt::format("expert tensor '{}' lies in a buffer of type {}, which is not a file mapping: dropped, "
                                "its weights would come back as zeros",
                                elsewhere_, buffer_type_),
                    "use --kernels plain or mixed, or --residency arena");
    }
    if (!unbound_.empty()) {
        throw Error(ErrorKind::model,
                    fmt::format("{}: expert tensor '{}' does not have the shape the model's settings ask for",
                                layout_.files.front(), unbound_),
                    "get the file again, or a conversion made for llama.cpp");
    }
    weights_.load(progress);
}

void Engine::Impl::open_page() {
    mapped_buffer_type(); // registered before the first model
    layout = open_layout(options.model_path);
    refuse_what_page_cannot_do(options, layout);
    options = resolve(options, layout.context_length);
    kernels = options.kernels.value_or(Kernels::plain);
    placement = measure(layout, kernels, mapped_buffer_type()).placement;
    malloc_trim(0);
    pager = std::make_unique<ExpertPager>(layout, options.pager);
    mapped_experts = std::make_unique<MappedExperts>(
        layout, [this](const ExpertTensor &tensor) { return pager->address_of(tensor); },
        [this, record = record_routes()](uint32_t group, uint32_t top_k, std::span<const int32_t> experts) {
            pager->routed(group, top_k, experts);
            if (record) {
                record(group, top_k, experts);
            }
        });
    ReaderOptions reading = options.reader;
    reading.requests_max = ResidentWeights::reads_max;
    const std::unique_ptr<Reader> resident_reader = open_reader(layout.files, reading);
    remember_file_states();

    PageLoad load(layout, *resident_reader, *mapped_experts, *pager);
    llama_model_params params = model_params(false);
    params.tensor_buft_overrides = placement->overrides();
    model.reset(llama_model_init_from_user(layout.metadata.get(), on_tensor, &load, params));
    if (model == nullptr) {
        throw llama_refused(ErrorKind::model, fmt::format("{}: llama.cpp cannot build the model", layout.files.front()),
                            "make room: the file is mapped twice");
    }
    load.load(options.progress);
    layout.metadata.reset();
    malloc_trim(0);
    read_bytes_at_load = process_memory().read_bytes;
}

} // namespace larder

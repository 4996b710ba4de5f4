#include "lab/residency/page_load.h"

#include "base/error.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder {

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

void PageLoad::load(const RuntimeOptions &options) {
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
    weights_.load(options.progress, options.read_timeout);
}

} // namespace larder

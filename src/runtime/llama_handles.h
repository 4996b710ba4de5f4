// llama_handles.h — owning handles for llama.cpp's objects.
#pragma once

#include "llama.h"

#include <memory>

namespace larder {

struct FreeModel {
    void operator()(llama_model *model) const { llama_model_free(model); }
};
struct FreeContext {
    void operator()(llama_context *context) const { llama_free(context); }
};
using ModelHandle = std::unique_ptr<llama_model, FreeModel>;
using ContextHandle = std::unique_ptr<llama_context, FreeContext>;

} // namespace larder

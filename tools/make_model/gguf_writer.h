// gguf_writer.h — writes a model as one GGUF file or as several shards, tensor by tensor.
#pragma once

#include "weights.h"

#include <gguf.h>

#include <filesystem>
#include <functional>
#include <vector>

namespace larder::make_model {

// The files that a model written to `out` consists of: `out` itself for one, else PREFIX-00001-of-0000N.gguf and so on,
// as llama.cpp names them.
std::vector<std::filesystem::path> model_paths(const std::filesystem::path &out, uint32_t shards);

// Hands a tensor's bytes to the sink, in order and in pieces of bounded size.
using Generate = std::function<void(const Tensor &, const Sink &)>;

// Writes the files under names of their own first and renames them when all are complete, so that there is never a
// part of a model under a model's name. Throws Error(io), leaving nothing behind.
// `metadata` has all keys but those about shards. 1 <= shards <= tensors.size().
void write_model(const std::vector<std::filesystem::path> &paths, const gguf_context *metadata,
                 const std::vector<Tensor> &tensors, const Generate &generate);

} // namespace larder::make_model

// gguf_writer.h — writes a model as one GGUF file or as several shards, one tensor at a time.
#pragma once

#include "weights.h"

#include <gguf.h>

#include <filesystem>
#include <functional>
#include <vector>

namespace larder::make_model {

// The files of a model that is written to `out`: `out` itself for one shard, otherwise PREFIX-00001-of-0000N.gguf and
// so on, as llama.cpp names them.
std::vector<std::filesystem::path> model_paths(const std::filesystem::path &out, uint32_t shards);

// Passes a tensor's bytes to the sink, in order and in pieces of bounded size.
using Generate = std::function<void(const Tensor &, const Sink &)>;

// Writes the files under temporary names and renames them when all are complete, so that an incomplete model never has
// its final name. If writing fails, throws Error(io) and leaves no file. `metadata` has all keys except those of
// shards. 1 <= shards <= tensors.size().
void write_model(const std::vector<std::filesystem::path> &paths, const gguf_context *metadata,
                 const std::vector<Tensor> &tensors, const Generate &generate);

} // namespace larder::make_model

// shards.h — the files of one model: a single GGUF, or all shards of a split model.
#pragma once

#include "layout/gguf_file.h"

#include <memory>
#include <string>
#include <vector>

namespace larder {

struct Shards {
    std::vector<GgufFile> files;            // in order
    std::shared_ptr<gguf_context> metadata; // keys of the first shard, tensors of all shards
};

// `path` is any shard; the others must be in the same folder. Throws Error(model) that names the first shard that is
// missing or belongs to another model.
Shards read_shards(const std::string &path);

} // namespace larder

// shards.h — the files of one model: a single GGUF, or all shards of a split one.
#pragma once

#include "layout/gguf_file.h"

#include <memory>
#include <string>
#include <vector>

namespace larder {

struct Shards {
    std::vector<GgufFile> files;            // in order
    std::shared_ptr<gguf_context> metadata; // keys of the first, tensors of all
};

// `path` names any one of the shards; the others are looked for beside it. Throws Error(model) that names the first one
// that is missing or does not belong.
Shards read_shards(const std::string &path);

} // namespace larder

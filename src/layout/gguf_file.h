// gguf_file.h — the metadata of one GGUF file, read by ggml's reader.
#pragma once

#include "base/file_identity.h"

#include <gguf.h>

#include <cstdint>
#include <memory>
#include <string>

namespace larder {

struct GgufFile {
    std::string path;
    FileIdentity identity;                 // of the descriptor that was used to read the metadata
    std::shared_ptr<gguf_context> context; // never null
    // Another GGUF begins after the data of the last tensor, as in shards that were joined with `cat`.
    bool followed_by_another = false;

    [[nodiscard]] uint64_t bytes() const { return identity.bytes; }
};

// Reads header, keys and tensor table. Throws Error(io) if the file cannot be opened or read, or changes while it is
// read; Error(model) if it is not a GGUF or is damaged. Does not check that the tensors lie inside the file.
GgufFile read_gguf(const std::string &path);

} // namespace larder

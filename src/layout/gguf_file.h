// gguf_file.h — the metadata of one GGUF file, read through ggml's own reader.
#pragma once

#include "base/file_identity.h"

#include <gguf.h>

#include <cstdint>
#include <memory>
#include <string>

namespace larder {

struct GgufFile {
    std::string path;
    FileIdentity identity;                 // of the descriptor that the metadata was read from
    std::shared_ptr<gguf_context> context; // never null
    // Another GGUF begins where the data of the last tensor ends, as in a file that `cat` made of several.
    bool followed_by_another = false;

    [[nodiscard]] uint64_t bytes() const { return identity.bytes; }
};

// Reads header, keys and tensor table. Throws Error(io) if the file cannot be opened or read, or is written to at the
// same time; Error(model) if it is not a GGUF or is damaged. Whether the tensors lie inside the file is not checked.
GgufFile read_gguf(const std::string &path);

} // namespace larder

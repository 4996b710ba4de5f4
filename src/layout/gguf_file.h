// gguf_file.h — the metadata of one GGUF file, read through ggml's own reader.
#pragma once

#include <gguf.h>

#include <cstdint>
#include <memory>
#include <string>

namespace larder {

struct GgufFile {
    std::string path;
    uint64_t bytes = 0;                    // size of the file
    std::shared_ptr<gguf_context> context; // never null
};

// Reads header, keys and tensor table. Throws Error(io) if the file cannot be opened or read, Error(model) if it is not
// a GGUF or is damaged. Says nothing about whether the tensors' data is there.
GgufFile read_gguf(const std::string &path);

} // namespace larder

// target.h — the files that `larder probe PATH` reads: a model with all its shards, any file, or a temporary file in a
// directory.
#pragma once

#include "base/bytes.h"
#include "base/unique_fd.h"
#include "layout/layout.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace larder {

struct ProbeTarget {
    std::string name; // as the user gave it
    std::vector<std::string> paths;
    uint64_t bytes = 0;                // of all files
    std::optional<ModelLayout> layout; // of a model
    std::vector<std::string> notices;  // one line each: what a reader of the figures should know of the files
    // The file in a directory. It is unlinked as soon as it is made, so that nothing is left however the process ends;
    // `paths` leads to it through this descriptor.
    UniqueFd temporary;
};

// Of the file in a directory.
struct TemporarySize {
    uint64_t wanted_bytes = 512 * MiB; // at most half of the free space is used
    uint64_t least_bytes = 0;          // less is an error
    bool demanded = false;             // the user named it: more than the free space is an error
};

// `text` with the path by which the reader knows a temporary file replaced by words.
std::string with_names(const ProbeTarget &target, std::string text);

// Throws Error(io), and Error(usage) for a size that is not possible.
ProbeTarget open_probe_target(const std::string &path, const TemporarySize &size);

} // namespace larder

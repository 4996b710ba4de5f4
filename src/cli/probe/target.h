// target.h — the files that `larder probe PATH` reads: all shards of a model, any file, or a temporary file in a
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
    uint64_t bytes = 0;                // of all files together
    std::optional<ModelLayout> layout; // only for a model
    std::vector<std::string> notices;  // notes for the reader of the figures, one line each
    // The temporary file in a directory. It is unlinked at once, so the kernel frees it however the process ends.
    // `paths` refers to it through this descriptor.
    UniqueFd temporary;
};

// Size of the temporary file.
struct TemporarySize {
    uint64_t wanted_bytes = 512 * MiB; // at most half of the free space is used
    uint64_t least_bytes = 0;          // less is an error
    bool demanded = false;             // the user chose the size: more than the free space is an error
};

// `text` with the internal path of a temporary file replaced by a description.
std::string with_names(const ProbeTarget &target, std::string text);

// Throws Error(io), or Error(usage) for an impossible size.
ProbeTarget open_probe_target(const std::string &path, const TemporarySize &size);

} // namespace larder

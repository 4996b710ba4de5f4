// target.h — what `larder probe PATH` reads: a model with all its shards, any file, or a file of its own in a
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
    std::vector<std::string> notices;  // what should be known of it: that it lies in memory, say
    // The file in a directory. It has no name from the beginning, so that nothing is left however the process ends;
    // `paths` reaches it through this descriptor.
    UniqueFd temporary;
};

// Of the file in a directory.
struct TemporarySize {
    uint64_t wanted_bytes = 512 * MiB; // of which half of what is free there is taken at most
    uint64_t least_bytes = 0;          // has to fit
    bool demanded = false;             // by the user: then it may not be more than is free
};

// Throws Error(io), and Error(usage) for a size that cannot be.
ProbeTarget open_probe_target(const std::string &path, const TemporarySize &size);

} // namespace larder

// target.h — what `larder probe PATH` reads: a model with all its shards, any file, or a file of its own in a
// directory.
#pragma once

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

// `temporary_bytes`: size of the file in a directory, at most half of what is free there. Throws Error(io).
ProbeTarget open_probe_target(const std::string &path, uint64_t temporary_bytes);

} // namespace larder

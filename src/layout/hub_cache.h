// hub_cache.h — the cache of Hugging Face's hub. A file is stored as MODEL/blobs/HASH; MODEL/snapshots/REVISION/NAME is
// a symbolic link to it.
#pragma once

#include <optional>
#include <string>

namespace larder {

// The path under which the blob at `path` has its name: the link in a snapshot, or the folder of the snapshots if no
// link is found. nullopt if `path` is not a blob of such a cache.
std::optional<std::string> names_of_blob(const std::string &path);

} // namespace larder

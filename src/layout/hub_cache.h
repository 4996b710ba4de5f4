// hub_cache.h — the cache of Hugging Face's hub: a file lies at MODEL/blobs/HASH, and MODEL/snapshots/REVISION/NAME is
// a link to it.
#pragma once

#include <optional>
#include <string>

namespace larder {

// Where the file at `path` has its name: the link of a snapshot that leads to it, or else the folder of the snapshots.
// Nothing if `path` is not a blob of such a cache.
std::optional<std::string> names_of_blob(const std::string &path);

} // namespace larder

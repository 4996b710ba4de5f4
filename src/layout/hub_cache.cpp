#include "layout/hub_cache.h"

#include <filesystem>
#include <system_error>

namespace larder {

namespace {

constexpr int entries_max = 10'000; // limit of directory entries to check

} // namespace

std::optional<std::string> names_of_blob(const std::string &path) {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path blob = fs::absolute(path, error);
    const fs::path snapshots = blob.parent_path().parent_path() / "snapshots";
    if (error || blob.parent_path().filename() != "blobs" || !fs::is_directory(snapshots, error)) {
        return std::nullopt;
    }
    int looked_at = 0;
    for (auto entry = fs::recursive_directory_iterator(snapshots, error);
         !error && entry != fs::recursive_directory_iterator() && looked_at < entries_max; entry.increment(error)) {
        looked_at++;
        std::error_code no_link;
        if (fs::read_symlink(entry->path(), no_link).filename() == blob.filename()) {
            return entry->path().string();
        }
    }
    return snapshots.string();
}

} // namespace larder

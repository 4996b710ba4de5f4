// Computes the path of a profile.
#include "base/error.h"
#include "cli/tune/profile.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

namespace larder {

namespace {

// Empty for a user without a home directory: a folder that others can write to may hold another user's profile or a
// link.
std::optional<std::filesystem::path> profile_folder() {
    const char *const cache = std::getenv("XDG_CACHE_HOME");
    if (cache != nullptr && *cache == '/') {
        return std::filesystem::path(cache) / "larder" / "profiles";
    }
    const char *const home = std::getenv("HOME");
    if (home == nullptr || *home != '/') {
        return std::nullopt;
    }
    return std::filesystem::path(home) / ".cache" / "larder" / "profiles";
}

// "2G" and "2048M" have the same key. A percentage is its own key, whatever amount it means at the moment.
std::string budget_key(const Budget &budget) {
    return !budget.bytes || budget.text.ends_with('%') ? budget.text : std::to_string(*budget.bytes);
}

std::string key_of(const ModelLayout &layout, const Budget &budget) {
    std::string facts =
        fmt::format("{}\n{}\n{}\n{}\n", layout.architecture, layout.name, layout.total_bytes, budget_key(budget));
    for (const TensorInfo &tensor : layout.tensors) {
        facts += fmt::format("{} {} {}\n", tensor.name, tensor.type, tensor.extent.bytes);
    }
    return fmt::format("{:016x}", XXH3_64bits(facts.data(), facts.size()));
}

} // namespace

bool any_profile() {
    const std::optional<std::filesystem::path> folder = profile_folder();
    std::error_code error;
    return folder && !std::filesystem::is_empty(*folder, error) && !error;
}

std::string profile_path(const ModelLayout &layout, const Budget &budget) {
    const std::optional<std::filesystem::path> folder = profile_folder();
    if (!folder) {
        throw Error(ErrorKind::io, "there is no folder for the profile: neither XDG_CACHE_HOME nor HOME is set",
                    "set HOME, or name a file with --profile");
    }
    return (*folder / (key_of(layout, budget) + ".json")).string();
}

} // namespace larder

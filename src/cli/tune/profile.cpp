#include "cli/tune/profile.h"

#include "base/bytes.h"
#include "base/error.h"
#include "cli/console/stats_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <xxhash.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace larder {

namespace {

constexpr int profile_version = 1;

std::filesystem::path profile_folder() {
    const char *const cache = std::getenv("XDG_CACHE_HOME");
    if (cache != nullptr && *cache == '/') {
        return std::filesystem::path(cache) / "larder" / "profiles";
    }
    const char *const home = std::getenv("HOME");
    return std::filesystem::path(home != nullptr && *home != '\0' ? home : "/tmp") / ".cache" / "larder" / "profiles";
}

// "2G" and "2048M" are one budget; a share of what the machine gives stays one, whatever it gives.
std::string budget_key(const std::string &ram) {
    return ram.empty() || ram.ends_with('%') ? ram : std::to_string(parse_bytes(ram, "--ram"));
}

std::string key_of(const ModelLayout &layout, const std::string &ram) {
    std::string facts =
        fmt::format("{}\n{}\n{}\n{}\n", layout.architecture, layout.name, layout.total_bytes, budget_key(ram));
    for (const TensorInfo &tensor : layout.tensors) {
        facts += fmt::format("{} {} {}\n", tensor.name, tensor.type, tensor.extent.bytes);
    }
    return fmt::format("{:016x}", XXH3_64bits(facts.data(), facts.size()));
}

} // namespace

uint32_t usable_processors() {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? static_cast<uint32_t>(CPU_COUNT(&set)) : 1;
}

bool any_profile() {
    std::error_code error;
    return !std::filesystem::is_empty(profile_folder(), error) && !error;
}

std::string profile_path(const ModelLayout &layout, const std::string &ram) {
    return (profile_folder() / (key_of(layout, ram) + ".json")).string();
}

void write_profile(const std::string &path, const ModelLayout &layout, const TuneProfile &profile) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    const nlohmann::ordered_json json = {{"larder_profile", profile_version},
                                         {"model_name", layout.name},
                                         {"model_bytes", layout.total_bytes},
                                         {"ram", profile.ram},
                                         {"processors", profile.processors},
                                         {"ctx_tokens", profile.ctx_tokens},
                                         {"job", profile.job},
                                         {"seconds", profile.seconds},
                                         {"threads", profile.tuning.threads},
                                         {"ubatch_tokens", profile.tuning.ubatch_tokens},
                                         {"arena_bytes", profile.tuning.arena_bytes},
                                         {"io_depth", profile.tuning.io_depth}};
    write_file(path, json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n", "--profile");
}

std::optional<TuneProfile> read_profile(const std::string &path) {
    std::ifstream file(path);
    const auto json = nlohmann::json::parse(file, nullptr, false);
    try {
        if (json.is_discarded() || json.at("larder_profile") != profile_version ||
            json.at("processors") != usable_processors()) {
            return std::nullopt;
        }
        TuneProfile profile;
        json.at("ram").get_to(profile.ram);
        json.at("processors").get_to(profile.processors);
        json.at("ctx_tokens").get_to(profile.ctx_tokens);
        json.at("job").get_to(profile.job);
        json.at("seconds").get_to(profile.seconds);
        json.at("threads").get_to(profile.tuning.threads);
        json.at("ubatch_tokens").get_to(profile.tuning.ubatch_tokens);
        json.at("arena_bytes").get_to(profile.tuning.arena_bytes);
        json.at("io_depth").get_to(profile.tuning.io_depth);
        return profile;
    } catch (const nlohmann::json::exception &) {
        return std::nullopt;
    }
}

std::string apply_profile(const TuneProfile &profile, const std::string &path, EngineOptions &options) {
    std::string told;
    const auto tell = [&told](const std::string &what) { told += (told.empty() ? "" : ", ") + what; };
    if (options.threads == 0) {
        options.threads = profile.tuning.threads;
        tell(fmt::format("threads {}", options.threads));
    }
    if (options.ubatch_tokens == 0) {
        options.ubatch_tokens = profile.tuning.ubatch_tokens;
        tell(fmt::format("ubatch {}", options.ubatch_tokens));
    }
    if (!options.wishes.arena_bytes && profile.tuning.arena_bytes > 0) {
        options.wishes.arena_bytes = profile.tuning.arena_bytes;
        tell(fmt::format("arena at most {}", format_bytes(profile.tuning.arena_bytes)));
    }
    if (options.reader.depth == 0) {
        options.reader.depth = profile.tuning.io_depth;
        tell(fmt::format("read depth {}", options.reader.depth));
    }
    return told.empty() ? told : fmt::format("{}, as larder tune found ({}; --no-profile for none)", told, path);
}

} // namespace larder

#include "cli/tune/profile.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "cli/console/write_file.h"
#include "machine/cpus.h"
#include "plan/plan.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace larder {

namespace {

constexpr uint32_t profile_version = 2;
constexpr uint64_t profile_bytes_max = 64 * KiB;

// Upper bounds of the flags and of the search.
constexpr uint32_t threads_max = 512;
constexpr uint32_t io_depth_max = 1024;
constexpr uint32_t ubatch_tokens_max = 65536;

Error no_profile(const std::string &path, const std::string &why) {
    return {ErrorKind::io, fmt::format("{} is not a profile of larder tune: {}", path, why),
            "remove it, or run with --no-profile"};
}

// Empty if there is no file. Reads neither special files nor files much larger than a profile.
std::optional<std::string> text_of(const std::string &path) {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // do not wait for a writer of a pipe
    if (!fd.valid()) {
        if (errno == ENOENT || errno == ENOTDIR) {
            return std::nullopt;
        }
        throw no_profile(path, std::generic_category().message(errno));
    }
    struct stat info = {};
    if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
        throw no_profile(path, "it is not a regular file");
    }
    std::string text(profile_bytes_max + 1, '\0');
    size_t size = 0;
    while (size < text.size()) {
        const ssize_t n = read(fd.get(), text.data() + size, text.size() - size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            throw no_profile(path, std::generic_category().message(errno));
        }
        if (n == 0) {
            break;
        }
        size += static_cast<size_t>(n);
    }
    if (size > profile_bytes_max) {
        throw no_profile(path, fmt::format("it is larger than {}", format_bytes(profile_bytes_max)));
    }
    text.resize(size);
    return text;
}

// Reads values of a profile, which may have been written by another program.
struct ProfileReader {
    const std::string &path;
    const nlohmann::json &json;

    template <typename Number> [[nodiscard]] Number number(const char *key, Number min, Number max) const {
        const auto at = json.find(key);
        if (at == json.end() || !at->is_number_unsigned()) {
            throw no_profile(path, fmt::format("its {} is not a whole number", key));
        }
        const auto value = at->get<uint64_t>();
        if (value < min || value > max) {
            throw no_profile(path, fmt::format("its {} is {}, not a number from {} to {}", key, value, min, max));
        }
        return static_cast<Number>(value);
    }
    [[nodiscard]] std::string text(const char *key) const {
        const auto at = json.find(key);
        if (at == json.end() || !at->is_string()) {
            throw no_profile(path, fmt::format("its {} is not a string", key));
        }
        return at->get<std::string>();
    }
    [[nodiscard]] std::map<std::string, std::string> texts(const char *key) const {
        const auto at = json.find(key);
        if (at == json.end() || !at->is_object() ||
            !std::ranges::all_of(*at, [](const nlohmann::json &value) { return value.is_string(); })) {
            throw no_profile(path, fmt::format("its {} are not strings", key));
        }
        return at->get<std::map<std::string, std::string>>();
    }
};

} // namespace

uint32_t usable_processors() { return usable_cpus().processors; }

void check_profile_writable(const std::string &path) {
    std::error_code error; // write_profile() reports a missing folder
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    check_replaceable(path, "--profile");
}

void write_profile(const std::string &path, const ModelLayout &layout, const TuneProfile &profile) {
    const nlohmann::ordered_json json = {{"larder_profile", profile_version},
                                         {"model_name", layout.name},
                                         {"model_bytes", layout.total_bytes},
                                         {"ram", profile.ram},
                                         {"processors", profile.processors},
                                         {"ctx_tokens", profile.ctx_tokens},
                                         {"memory_flags", profile.memory},
                                         {"job", profile.job},
                                         {"seconds", profile.seconds},
                                         {"threads", profile.tuning.threads},
                                         {"ubatch_tokens", profile.tuning.ubatch_tokens},
                                         {"arena_bytes", profile.tuning.arena_bytes},
                                         {"io_depth", profile.tuning.io_depth}};
    write_file(path, json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n", "--profile");
}

std::optional<TuneProfile> read_profile(const std::string &path, const ModelLayout &layout) {
    const std::optional<std::string> text = text_of(path);
    if (!text) {
        return std::nullopt;
    }
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (!json.is_object()) {
        throw no_profile(path, "it is not a JSON object");
    }
    const ProfileReader reader{path, json};
    if (reader.number<uint32_t>("larder_profile", 0, UINT32_MAX) != profile_version) {
        throw no_profile(path, fmt::format("its version is not {}", profile_version));
    }
    TuneProfile profile;
    profile.processors = reader.number<uint32_t>("processors", 1, UINT32_MAX);
    profile.ctx_tokens = reader.number<uint32_t>("ctx_tokens", 1, INT32_MAX);
    profile.memory = reader.texts("memory_flags");
    profile.job = reader.text("job");
    profile.ram = reader.text("ram");
    profile.tuning.threads = reader.number<uint32_t>("threads", 1, threads_max);
    profile.tuning.ubatch_tokens =
        reader.number<uint32_t>("ubatch_tokens", 1, std::min(profile.ctx_tokens, ubatch_tokens_max));
    profile.tuning.io_depth = reader.number<uint32_t>("io_depth", 1, io_depth_max);
    profile.tuning.arena_bytes = reader.number<uint64_t>("arena_bytes", 0, all_experts_bytes(layout));
    if (profile.tuning.arena_bytes > 0 && profile.tuning.arena_bytes < floor_bytes(layout)) {
        throw no_profile(path, "its arena_bytes do not hold one token's experts");
    }
    return profile.processors == usable_processors() ? std::optional(profile) : std::nullopt;
}

} // namespace larder

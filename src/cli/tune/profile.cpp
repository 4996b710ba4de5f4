#include "cli/tune/profile.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "cli/console/stats_file.h"
#include "machine/cpus.h"
#include "plan/plan.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace larder {

namespace {

constexpr uint32_t profile_version = 2;
constexpr uint64_t profile_bytes_max = 64 * KiB;

// No flag takes more, and no search finds more.
constexpr uint32_t threads_max = 512;
constexpr uint32_t io_depth_max = 1024;
constexpr uint32_t ubatch_tokens_max = 65536;

std::filesystem::path profile_folder() {
    const char *const cache = std::getenv("XDG_CACHE_HOME");
    if (cache != nullptr && *cache == '/') {
        return std::filesystem::path(cache) / "larder" / "profiles";
    }
    const char *const home = std::getenv("HOME");
    return std::filesystem::path(home != nullptr && *home != '\0' ? home : "/tmp") / ".cache" / "larder" / "profiles";
}

// "2G" and "2048M" are one budget; a share of what the machine gives stays one, whatever it gives.
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

Error no_profile(const std::string &path, const std::string &why) {
    return {ErrorKind::io, fmt::format("{} is no profile of larder tune: {}", path, why),
            "remove it, or run with --no-profile"};
}

// Nothing where there is none. What is not a file, or far larger than a profile, is not read.
std::optional<std::string> text_of(const std::string &path) {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // a pipe is not waited for
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
        throw no_profile(path, fmt::format("it has more than {}", format_bytes(profile_bytes_max)));
    }
    text.resize(size);
    return text;
}

// Values of a profile that anybody may have written.
struct ProfileReader {
    const std::string &path;
    const nlohmann::json &json;

    template <typename Number> [[nodiscard]] Number number(const char *key, Number min, Number max) const {
        const auto at = json.find(key);
        if (at == json.end() || !at->is_number_unsigned()) {
            throw no_profile(path, fmt::format("its {} is no whole number", key));
        }
        const auto value = at->get<uint64_t>();
        if (value < min || value > max) {
            throw no_profile(path, fmt::format("its {} is {}, not one of {} to {}", key, value, min, max));
        }
        return static_cast<Number>(value);
    }
    [[nodiscard]] std::string text(const char *key) const {
        const auto at = json.find(key);
        if (at == json.end() || !at->is_string()) {
            throw no_profile(path, fmt::format("its {} is no text", key));
        }
        return at->get<std::string>();
    }
    [[nodiscard]] std::map<std::string, std::string> texts(const char *key) const {
        const auto at = json.find(key);
        if (at == json.end() || !at->is_object() ||
            !std::ranges::all_of(*at, [](const nlohmann::json &value) { return value.is_string(); })) {
            throw no_profile(path, fmt::format("its {} are no texts", key));
        }
        return at->get<std::map<std::string, std::string>>();
    }
};

// Why ubatch and arena are not for these options; empty if they are.
std::string memory_mismatch(const TuneProfile &profile, uint32_t ctx_tokens, const OpenOptions &options) {
    if (ctx_tokens > profile.ctx_tokens) {
        return fmt::format("with -c {}", profile.ctx_tokens);
    }
    for (const auto &[flag, value] : memory_flags(options)) {
        const auto tuned = profile.memory.find(flag);
        if (tuned == profile.memory.end() || tuned->second != value) {
            return fmt::format("with another {}", flag);
        }
    }
    return {};
}

} // namespace

MemoryFlags memory_flags(const OpenOptions &options) {
    const ContextSpec &context = options.model.context;
    const std::optional<uint64_t> &reserve = options.runtime.plan.reserve_bytes;
    return {{"-np", std::to_string(context.sequences)},
            {"-ctk", context.cache_type_k},
            {"-ctv", context.cache_type_v},
            {"-fa", std::string(to_string(context.flash_attention))},
            {"--kernels", options.model.kernels ? std::string(to_string(*options.model.kernels)) : "auto"},
            {"--reserve", reserve ? std::to_string(*reserve) : "default"}};
}

uint32_t usable_processors() { return usable_cpus().processors; }

bool any_profile() {
    std::error_code error;
    return !std::filesystem::is_empty(profile_folder(), error) && !error;
}

std::string profile_path(const ModelLayout &layout, const Budget &budget) {
    return (profile_folder() / (key_of(layout, budget) + ".json")).string();
}

void check_profile_writable(const std::string &path) {
    std::error_code error; // said by what finds no folder then
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
        throw no_profile(path, fmt::format("it is not of version {}", profile_version));
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

AppliedProfile apply_profile(const TuneProfile &profile, const std::string &path, uint32_t ctx_tokens,
                             OpenOptions &options) {
    ContextSpec &context = options.model.context;
    RuntimeOptions &runtime = options.runtime;
    const std::string mismatch = memory_mismatch(profile, ctx_tokens, options);
    const bool open_ubatch = context.ubatch_tokens == 0;
    const bool open_arena = !runtime.plan.arena_bytes && profile.tuning.arena_bytes > 0;
    std::string told;
    const auto tell = [&told](const std::string &what) { told += (told.empty() ? "" : ", ") + what; };
    if (context.threads == 0) {
        context.threads = profile.tuning.threads;
        tell(fmt::format("threads {}", context.threads));
    }
    if (open_ubatch && mismatch.empty()) {
        context.ubatch_tokens = profile.tuning.ubatch_tokens;
        tell(fmt::format("ubatch {}", context.ubatch_tokens));
    }
    if (open_arena && mismatch.empty()) {
        runtime.plan.arena_bytes = profile.tuning.arena_bytes;
        tell(fmt::format("arena at most {}", format_bytes(profile.tuning.arena_bytes)));
    }
    if (runtime.reader.depth == 0) {
        runtime.reader.depth = profile.tuning.io_depth;
        tell(fmt::format("read depth {}", runtime.reader.depth));
    }
    const bool any = !told.empty();
    told += any ? ", as larder tune found" : "";
    if (!mismatch.empty() && (open_ubatch || open_arena)) {
        told += fmt::format("{}its ubatch and arena are not used, as they were found {}", any ? "; " : "", mismatch);
    }
    return {any, told.empty() ? told : fmt::format("{} ({}; --no-profile for none)", told, path)};
}

} // namespace larder

// Applies a profile to the options of a run.
#include "base/bytes.h"
#include "cli/tune/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace larder {

namespace {

// Why ubatch and arena of the profile do not apply to these options; empty if they do.
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

AppliedProfile apply_profile(const TuneProfile &profile, const std::string &path, uint32_t ctx_tokens,
                             OpenOptions &options) {
    ContextSpec &context = options.model.context;
    RuntimeOptions &runtime = options.runtime;
    const std::string mismatch = memory_mismatch(profile, ctx_tokens, options);
    const bool open_ubatch = context.ubatch_tokens == 0;
    const bool open_arena = !runtime.plan.arena_bytes && profile.tuning.arena_bytes > 0;
    std::vector<std::string> applied;
    if (context.threads == 0) {
        context.threads = profile.tuning.threads;
        applied.push_back(fmt::format("threads {}", context.threads));
    }
    if (open_ubatch && mismatch.empty()) {
        context.ubatch_tokens = profile.tuning.ubatch_tokens;
        applied.push_back(fmt::format("ubatch {}", context.ubatch_tokens));
    }
    if (open_arena && mismatch.empty()) {
        runtime.plan.arena_bytes = profile.tuning.arena_bytes;
        applied.push_back(fmt::format("arena at most {}", format_bytes(profile.tuning.arena_bytes)));
    }
    if (runtime.reader.depth == 0) {
        runtime.reader.depth = profile.tuning.io_depth;
        applied.push_back(fmt::format("read depth {}", runtime.reader.depth));
    }
    std::vector<std::string> notes;
    if (!applied.empty()) {
        notes.push_back(fmt::format("{}, as larder tune found", fmt::join(applied, ", ")));
    }
    if (!mismatch.empty() && (open_ubatch || open_arena)) {
        notes.push_back(fmt::format("its ubatch and arena are not used, because they were found {}", mismatch));
    }
    return {!applied.empty(),
            notes.empty() ? "" : fmt::format("{} ({}; --no-profile ignores it)", fmt::join(notes, "; "), path)};
}

} // namespace larder

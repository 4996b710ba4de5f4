#include "cli/engine_flags.h"

#include "base/bytes.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>

namespace larder {

namespace {

constexpr std::array<std::pair<const char *, const char *>, 8> long_names = {{
    {"-ub", "--ubatch-size"},
    {"-tb", "--threads-batch"},
    {"-fa", "--flash-attn"},
    {"-ctk", "--cache-type-k"},
    {"-ctv", "--cache-type-v"},
    {"-sys", "--system-prompt"},
    {"-dio", "--direct-io"},
    {"-np", "--parallel"},
}};

const std::map<std::string, FlashAttention> flash_attention_names = {
    {"auto", FlashAttention::automatic}, {"on", FlashAttention::on}, {"off", FlashAttention::off}};
const std::map<std::string, IoBackend> io_backend_names = {
    {"auto", IoBackend::automatic}, {"io_uring", IoBackend::uring}, {"pread", IoBackend::pread}};
const std::map<std::string, DirectIo> direct_io_names = {
    {"auto", DirectIo::automatic}, {"required", DirectIo::required}, {"off", DirectIo::off}};

template <typename Value> std::vector<std::string> names_of(const std::map<std::string, Value> &map) {
    std::vector<std::string> names;
    for (const auto &[name, value] : map) {
        names.push_back(name);
    }
    return names;
}

} // namespace

void add_engine_flags(CLI::App &command, EngineFlags &flags) {
    EngineOptions &options = flags.options;
    command.add_option("-m,--model", options.model_path, "the model, a GGUF (any shard of a split one)")->required();
    command.add_option("-c,--ctx-size", options.ctx_tokens, "context in tokens (default: the model's, at most 4096)");
    command.add_option("-t,--threads", options.threads, "threads for decode (default: physical cores)");
    command.add_option("--threads-batch", options.threads_batch, "-tb: threads for prefill (default: as -t)");
    command.add_option("-b,--batch-size", options.batch_tokens, "tokens handed to llama.cpp at once")
        ->capture_default_str();
    command.add_option("--ubatch-size", options.ubatch_tokens, "-ub: tokens computed at once in prefill")
        ->capture_default_str();
    command.add_option("--flash-attn", flags.flash_attention, "-fa: flash attention")
        ->check(CLI::IsMember(names_of(flash_attention_names)))
        ->capture_default_str();
    command.add_option("--cache-type-k", options.cache_type_k, "-ctk: type of the K cache")->capture_default_str();
    command.add_option("--cache-type-v", options.cache_type_v, "-ctv: type of the V cache")->capture_default_str();
    command.add_option("--reserve", flags.reserve, "memory kept free inside the budget (default: min(budget/16, 1G))");
    command.add_option("--arena", flags.arena, "at most this much of the budget for experts (default: all there is)");
    command.add_flag("--overcommit", options.wishes.overcommit, "accept a budget above what the machine can give");
    command.add_option("--io", flags.io_backend, "how experts are read")
        ->check(CLI::IsMember(names_of(io_backend_names)))
        ->capture_default_str();
    command.add_option("--direct-io", flags.direct_io, "-dio: read past the page cache (O_DIRECT)")
        ->check(CLI::IsMember(names_of(direct_io_names)))
        ->capture_default_str();
    command.add_flag("-v,--verbose", options.verbose, "show llama.cpp's log");
}

EngineOptions engine_options(const EngineFlags &flags, const std::string &ram) {
    EngineOptions options = flags.options;
    options.flash_attention = flash_attention_names.at(flags.flash_attention);
    options.reader.backend = io_backend_names.at(flags.io_backend);
    options.reader.direct = direct_io_names.at(flags.direct_io);
    if (!ram.empty()) {
        options.wishes.budget_bytes = parse_bytes(ram, "--ram");
    }
    if (!flags.reserve.empty()) {
        options.wishes.reserve_bytes = flags.reserve == "0" ? 0 : parse_bytes(flags.reserve, "--reserve");
    }
    if (!flags.arena.empty()) {
        options.wishes.arena_bytes = parse_bytes(flags.arena, "--arena");
    }
    return options;
}

std::vector<std::string> as_arguments(const EngineFlags &flags) {
    const EngineOptions &options = flags.options;
    std::vector<std::string> arguments = {"-m",
                                          options.model_path,
                                          "-c",
                                          std::to_string(options.ctx_tokens),
                                          "-t",
                                          std::to_string(options.threads),
                                          "--threads-batch",
                                          std::to_string(options.threads_batch),
                                          "--ubatch-size",
                                          std::to_string(options.ubatch_tokens),
                                          "--flash-attn",
                                          flags.flash_attention,
                                          "--cache-type-k",
                                          options.cache_type_k,
                                          "--cache-type-v",
                                          options.cache_type_v,
                                          "--io",
                                          flags.io_backend,
                                          "--direct-io",
                                          flags.direct_io};
    if (!flags.reserve.empty()) {
        arguments.insert(arguments.end(), {"--reserve", flags.reserve});
    }
    if (!flags.arena.empty()) {
        arguments.insert(arguments.end(), {"--arena", flags.arena});
    }
    if (options.wishes.overcommit) {
        arguments.emplace_back("--overcommit");
    }
    if (options.verbose) {
        arguments.emplace_back("-v");
    }
    return arguments;
}

std::vector<std::string> with_long_names(int argc, char **argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    for (std::string &argument : arguments) {
        for (const auto &[short_name, long_name] : long_names) {
            if (argument == short_name) {
                argument = long_name;
            }
        }
    }
    return arguments;
}

} // namespace larder

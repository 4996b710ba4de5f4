#include "cli/flags/engine_flags.h"

#include "base/bytes.h"
#include "base/error.h"
#include "machine/machine.h"
#include "machine/memory_claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace larder {

namespace {

const std::map<std::string, FlashAttention> flash_attention_names = {{"auto", FlashAttention::automatic},
                                                                     {"on", FlashAttention::on},
                                                                     {"1", FlashAttention::on},
                                                                     {"off", FlashAttention::off},
                                                                     {"0", FlashAttention::off}};
const std::map<std::string, IoBackend> io_backend_names = {
    {"auto", IoBackend::automatic}, {"io_uring", IoBackend::uring}, {"pread", IoBackend::pread}};
const std::map<std::string, std::optional<Kernels>> kernel_names = {{"auto", std::nullopt},
                                                                    {"plain", Kernels::plain},
                                                                    {"mixed", Kernels::mixed},
                                                                    {"repacked", Kernels::repacked},
                                                                    {"fast", Kernels::fast}};
const std::map<std::string, DirectIo> direct_io_names = {
    {"auto", DirectIo::automatic}, {"required", DirectIo::required}, {"off", DirectIo::off}};

template <typename Value> std::vector<std::string> names_of(const std::map<std::string, Value> &map) {
    std::vector<std::string> names;
    for (const auto &[name, value] : map) {
        names.push_back(name);
    }
    return names;
}

// "50%": of what the machine gives now and no other larder process has claimed.
uint64_t budget_from(const std::string &ram) {
    if (ram.ends_with('%')) {
        const double share = parse_percent(ram, "--ram");
        return static_cast<uint64_t>(share * static_cast<double>(probe_machine("", other_claims()).unclaimed_bytes()));
    }
    uint64_t bytes = 0;
    try {
        bytes = parse_bytes(ram, "--ram");
    } catch (const Error &error) {
        throw error.with_remedies({{RemedyKind::other, "write it like 8G, 8GiB, 8192M or 50%"}});
    }
    if (bytes < MiB) {
        throw Error(ErrorKind::usage, fmt::format("--ram: '{}' is {}", ram, format_bytes(bytes)),
                    "give the unit, like 8G or 512M");
    }
    return bytes;
}

} // namespace

void refuse_bad_budgets(CLI::Option *ram) {
    ram->check([](const std::string &text) {
        budget_from(text); // throws what is wrong with it; empty too, though inside larder that is no budget
        return std::string();
    });
}

CLI::Option *add_model_flag(CLI::App &command, std::string &path) {
    CLI::Option *model = command.add_option("-m,--model,model", path,
                                            "the model, as MODEL or -m MODEL: a GGUF (any shard of a split one)");
    command.parse_complete_callback([&command, model] {
        if (model->count() == 0) {
            throw Error(ErrorKind::usage, "no model is named: give MODEL or -m MODEL",
                        fmt::format("see larder {} --help", command.get_name()));
        }
    });
    return model;
}

void add_budget_flag(CLI::App &command, std::string &ram) {
    refuse_bad_budgets(command
                           .add_option("--ram", ram,
                                       "budget of the whole process, like 8G, or 50% of what the machine or cgroup "
                                       "can give (default: all of that)")
                           ->group("Model and memory"));
}

void add_output_flag(CLI::App &command, std::string &output) {
    command.add_option("-o,--output", output, "md or json")
        ->check(CLI::IsMember({"md", "json"}))
        ->capture_default_str();
}

void add_reader_flags(CLI::App &command, std::string &io_backend, std::string &direct_io) {
    const std::string group = "Computing and reading";
    command.add_option("--io", io_backend, "how experts are read: auto, io_uring or pread")
        ->check(CLI::IsMember(names_of(io_backend_names)))
        ->capture_default_str()
        ->group(group);
    command.add_option("--direct-io", direct_io, "past the page cache (O_DIRECT): auto, required or off")
        ->check(CLI::IsMember(names_of(direct_io_names)))
        ->capture_default_str()
        ->group(group);
}

ReaderOptions reader_options(const std::string &io_backend, const std::string &direct_io) {
    ReaderOptions options;
    options.backend = io_backend_names.at(io_backend);
    options.direct = direct_io_names.at(direct_io);
    return options;
}

void add_engine_flags(CLI::App &command, EngineFlags &flags) {
    EngineOptions &options = flags.options;
    const std::string memory = "Model and memory";
    add_model_flag(command, options.model_path)->group(memory);
    command
        .add_option("-c,--ctx-size", options.ctx_tokens,
                    "context in tokens, rounded up to a multiple of 256 (default: the model's, at most 4096)")
        ->group(memory);
    command
        .add_option("--parallel", options.sequences,
                    "sequences that share the context, each with a recurrent state of its own (default: 1)")
        ->check(CLI::Range(1U, 256U)) // llama.cpp's LLAMA_MAX_SEQ
        ->group(memory);
    command
        .add_option("--reserve", flags.reserve,
                    "memory kept free inside the budget (default: min(budget/16, 1G)); raised where tokenising a long "
                    "text takes more")
        ->group(memory);
    command.add_option("--arena", flags.arena, "at most this much of the budget for experts (default: all there is)")
        ->group(memory);
    command.add_flag("--overcommit", options.plan.overcommit, "accept a budget above what the machine can give")
        ->group(memory);
    command.add_flag("--mlock", options.lock_memory, "keep all of it out of swap")->group(memory);
    command.add_option("--cache-type-k,--ctk", options.cache_type_k, "type of the K cache")
        ->capture_default_str()
        ->group(memory);
    command.add_option("--cache-type-v,--ctv", options.cache_type_v, "type of the V cache")
        ->capture_default_str()
        ->group(memory);

    const std::string computing = "Computing and reading";
    command
        .add_option("-t,--threads", flags.threads,
                    "threads for decode (default: the physical cores that affinity mask and "
                    "CPU quota leave)")
        ->group(computing);
    command.add_option("--threads-batch", flags.threads_batch, "threads for prefill (default: as -t)")
        ->group(computing);
    command
        .add_option("--ubatch-size", options.ubatch_tokens,
                    "tokens computed at once in prefill (default: chosen by the plan, at most 512, "
                    "or the context, if that is shorter)")
        ->group(computing);
    command.add_option("--flash-attn", flags.flash_attention, "flash attention: auto, on or off")
        ->check(CLI::IsMember(names_of(flash_attention_names)))
        ->capture_default_str()
        ->group(computing);
    command
        .add_option("--kernels", flags.kernels,
                    "plain (as llama.cpp --no-repack), repacked (as llama.cpp's default), mixed (experts plain, the "
                    "rest repacked), fast (no bit-equal twin), or auto: repacked if all experts fit, else mixed")
        ->check(CLI::IsMember(names_of(kernel_names)))
        ->capture_default_str()
        ->group(computing);
    add_reader_flags(command, flags.io_backend, flags.direct_io);
    command
        .add_option("--io-depth", flags.io_depth,
                    fmt::format("reads under way at once (default: {})", default_read_depth))
        ->check(CLI::Range(1U, 1024U))
        ->group(computing);
    command.add_flag("-v,--verbose", options.verbose, "show llama.cpp's log")->group(computing);
}

EngineOptions engine_options(const EngineFlags &flags, const std::string &ram) {
    EngineOptions options = flags.options;
    options.threads = static_cast<uint32_t>(std::max(0, flags.threads));
    options.threads_batch = static_cast<uint32_t>(std::max(0, flags.threads_batch));
    options.flash_attention = flash_attention_names.at(flags.flash_attention);
    options.kernels = kernel_names.at(flags.kernels);
    options.reader = reader_options(flags.io_backend, flags.direct_io);
    options.reader.depth = flags.io_depth;
    if (!ram.empty()) {
        options.plan.budget_bytes = budget_from(ram);
    }
    if (!flags.reserve.empty()) {
        options.plan.reserve_bytes = flags.reserve == "0" ? 0 : parse_bytes(flags.reserve, "--reserve");
    }
    if (!flags.arena.empty()) {
        options.plan.arena_bytes = parse_bytes(flags.arena, "--arena");
    }
    return options;
}

std::vector<std::string> as_arguments(const EngineFlags &flags) {
    const EngineOptions &options = flags.options;
    std::vector<std::string> arguments = {"-m",
                                          options.model_path,
                                          "-c",
                                          std::to_string(options.ctx_tokens),
                                          "--parallel",
                                          std::to_string(options.sequences),
                                          "-t",
                                          std::to_string(flags.threads),
                                          "--threads-batch",
                                          std::to_string(flags.threads_batch),
                                          "--ubatch-size",
                                          std::to_string(options.ubatch_tokens),
                                          "--flash-attn",
                                          flags.flash_attention,
                                          "--kernels",
                                          flags.kernels,
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
    if (flags.io_depth > 0) {
        arguments.insert(arguments.end(), {"--io-depth", std::to_string(flags.io_depth)});
    }
    if (options.plan.overcommit) {
        arguments.emplace_back("--overcommit");
    }
    if (options.lock_memory) {
        arguments.emplace_back("--mlock");
    }
    if (options.verbose) {
        arguments.emplace_back("-v");
    }
    return arguments;
}

} // namespace larder

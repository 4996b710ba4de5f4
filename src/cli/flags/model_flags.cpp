#include "cli/flags/model_flags.h"

#include "base/bytes.h"
#include "base/error.h"
#include "cli/flags/numbers.h"
#include "machine/machine.h"
#include "plan/plan.h"
#include "text/text_process.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <utility>

namespace larder {

namespace {

const std::string memory_group = "Model and memory";
const std::string computing_group = "Computing and reading";

constexpr int64_t threads_max = 512;   // ggml's GGML_MAX_N_THREADS
constexpr int64_t sequences_max = 256; // llama.cpp's LLAMA_MAX_SEQ
constexpr int64_t tokens_max = INT32_MAX;
constexpr int64_t ctx_tokens_max = UINT32_MAX - ctx_tokens_step; // llama.cpp rounds the number up
constexpr int64_t io_depth_max = 1024;
constexpr int64_t io_timeout_max = 86'400;

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

// An option that takes one of these names. Help shows "auto" as the default; each of these options has it.
template <typename Value>
CLI::Option *add_choice(CLI::App &command, const std::string &name, Value &value,
                        const std::map<std::string, Value> &names, const std::string &description) {
    std::vector<std::string> known;
    for (const auto &[each, ignored] : names) {
        known.push_back(each);
    }
    return detail::add_text_option(command, name, description, "TEXT",
                                   [&value, &names](const std::string &text) { value = names.at(text); })
        ->check(CLI::IsMember(known))
        ->default_str("auto");
}

CLI::Option *add_size(CLI::App &command, const std::string &name, std::optional<uint64_t> &bytes, bool zero_allowed,
                      const std::string &description) {
    return detail::add_text_option(command, name, description, "SIZE",
                                   [&bytes, name, zero_allowed](const std::string &text) {
                                       bytes = zero_allowed && text == "0" ? 0 : parse_bytes(text, name);
                                   });
}

// The values -1 and 0 mean the default, as in llama.cpp.
CLI::Option *add_threads(CLI::App &command, const std::string &names, uint32_t &threads,
                         const std::string &description) {
    return detail::add_text_option(command, names, description, "N",
                                   [&threads, flag = detail::long_name(names)](const std::string &text) {
                                       const int64_t n = parse_integer(text, flag, -1, threads_max);
                                       threads = n > 0 ? static_cast<uint32_t>(n) : 0;
                                   });
}

void add_memory_flags(CLI::App &command, OpenOptions &options) {
    ContextSpec &context = options.model.context;
    PlanOptions &plan = options.runtime.plan;
    add_model_flag(command, options.model.path)->group(memory_group);
    add_integer(command, "-c,--ctx-size", context.ctx_tokens, 0, ctx_tokens_max,
                "context in tokens, rounded up to a multiple of 256 (default: the model's, at most 4096)")
        ->group(memory_group);
    add_integer(command, "--parallel", context.sequences, 1, sequences_max,
                "number of sequences that share the context; each has its own recurrent state (default: 1)")
        ->group(memory_group);
    add_size(command, "--reserve", plan.reserve_bytes, true,
             "headroom inside the budget (default: min(budget/16, 1G)); raised if tokenising a long text needs more")
        ->group(memory_group);
    add_size(command, "--arena", plan.arena_bytes, false,
             "maximum size of the arena, the memory for experts (default: all that the budget leaves)")
        ->group(memory_group);
    command.add_flag("--overcommit", plan.overcommit, "accept a budget above what the machine can give")
        ->group(memory_group);
    command
        .add_flag("--mlock", options.runtime.lock_memory,
                  "lock all memory of the process, so that none of it is swapped out")
        ->group(memory_group);
    command.add_option("--cache-type-k,--ctk", context.cache_type_k, "type of the K cache")
        ->capture_default_str()
        ->group(memory_group);
    command.add_option("--cache-type-v,--ctv", context.cache_type_v, "type of the V cache")
        ->capture_default_str()
        ->group(memory_group);
}

void add_computing_flags(CLI::App &command, OpenOptions &options) {
    ContextSpec &context = options.model.context;
    add_threads(command, "-t,--threads", context.threads,
                "threads for decode (default: the physical cores that the affinity mask and the CPU quota allow)")
        ->group(computing_group);
    add_threads(command, "--threads-batch", context.threads_batch, "threads for prefill (default: the same as -t)")
        ->group(computing_group);
    add_integer(command, "--ubatch-size", context.ubatch_tokens, 0, tokens_max,
                "tokens computed at once in prefill (default: chosen by the plan, at most 512 and at most the context)")
        ->group(computing_group);
    add_choice(command, "--flash-attn", context.flash_attention, flash_attention_names,
               "flash attention: auto, on or off")
        ->group(computing_group);
    add_choice(command, "--kernels", options.model.kernels, kernel_names,
               "plain (like llama.cpp --no-repack), repacked (like llama.cpp's default), mixed (experts plain, all "
               "other weights repacked), fast (llama.cpp has no mode with the same bits), or auto: repacked if all "
               "experts fit into the arena, else mixed")
        ->group(computing_group);
    add_reader_flags(command, options.runtime.reader);
    add_integer(command, "--io-depth", options.runtime.reader.depth, 1, io_depth_max,
                fmt::format("maximum number of reads in flight (default: {})", default_read_depth))
        ->group(computing_group);
    detail::add_text_option(command, "--io-timeout",
                            "fail if the disk finishes no read for N seconds; 0: never (default: 60)", "N",
                            [&timeout = options.runtime.read_timeout](const std::string &text) {
                                timeout = std::chrono::seconds(parse_integer(text, "--io-timeout", 0, io_timeout_max));
                            })
        ->group(computing_group);
    command.add_flag("-v,--verbose", options.runtime.verbose, "show llama.cpp's log")->group(computing_group);
}

} // namespace

Budget parse_budget(const std::string &text) {
    if (text.ends_with('%')) {
        const double share = parse_percent(text, "--ram");
        return {text, static_cast<uint64_t>(share *
                                            static_cast<double>(probe_machine("", other_claims()).unclaimed_bytes()))};
    }
    uint64_t bytes = 0;
    try {
        bytes = parse_bytes(text, "--ram");
    } catch (const Error &error) {
        throw error.with_remedies({{RemedyKind::other, "write it like 8G, 8GiB, 8192M or 50%"}});
    }
    if (bytes < MiB) {
        throw Error(ErrorKind::usage, fmt::format("--ram: '{}' is {}", text, format_bytes(bytes)),
                    "give the unit, like 8G or 512M");
    }
    return {text, bytes};
}

OpenOptions with_budget(const OpenOptions &options, const Budget &budget) {
    OpenOptions with = options;
    with.runtime.plan.budget_bytes = budget.bytes;
    with.runtime.beside_bytes = text_process_bytes;
    return with;
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

void add_budget_flag(CLI::App &command, Budget &budget) {
    detail::add_text_option(command, "--ram",
                            "memory budget of the whole process, like 8G, or 50% of what the machine or cgroup can "
                            "give (default: all of it)",
                            "SIZE", [&budget](const std::string &text) { budget = parse_budget(text); })
        ->group(memory_group);
}

void add_budgets_flag(CLI::App &command, std::vector<Budget> &budgets, const std::string &description) {
    detail::add_list_option(command, "--ram", description, "SIZE,…", [&budgets](const std::vector<std::string> &texts) {
        budgets.clear();
        for (const std::string &text : texts) {
            budgets.push_back(parse_budget(text));
        }
    })->group(memory_group);
}

void add_batch_flag(CLI::App &command, OpenOptions &options) {
    add_integer(command, "-b,--batch-size", options.model.context.batch_tokens, 1, batch_tokens_max,
                "tokens passed to llama.cpp at once")
        ->default_str(std::to_string(options.model.context.batch_tokens))
        ->group(computing_group);
}

void add_output_flag(CLI::App &command, std::string &output) {
    command.add_option("-o,--output", output, "md or json")
        ->check(CLI::IsMember({"md", "json"}))
        ->capture_default_str();
}

void add_reader_flags(CLI::App &command, ReaderOptions &reader) {
    add_choice(command, "--io", reader.backend, io_backend_names, "how files are read: auto, io_uring or pread")
        ->group(computing_group);
    add_choice(command, "--direct-io", reader.direct, direct_io_names,
               "bypass the page cache (O_DIRECT): auto, required or off")
        ->group(computing_group);
}

void add_model_flags(CLI::App &command, OpenOptions &options) {
    add_memory_flags(command, options);
    add_computing_flags(command, options);
}

} // namespace larder

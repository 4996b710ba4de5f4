// larder run: answers a prompt, or chats.
#include "base/bytes.h"
#include "cli/command.h"
#include "cli/console/output_files.h"
#include "cli/console/progress_bar.h"
#include "cli/console/signals.h"
#include "cli/console/stats_file.h"
#include "cli/console/terminal.h"
#include "cli/console/text_file.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/residency_flags.h"
#include "cli/run/answer.h"
#include "cli/run/chat.h"
#include "cli/tune/profile.h"
#include "engine/engine.h"
#include "engine/planner.h"
#include "machine/cpus.h"
#include "machine/numa.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

namespace larder {

namespace {

// More than any context holds, and little enough to be read inside any budget; the engine then compares with its
// context.
constexpr uint64_t prompt_bytes_max = 16 * MiB;
// llama.cpp's parser takes some fifty times the text, which the plan does not hold.
constexpr uint64_t grammar_bytes_max = 128 * KiB;
constexpr int exit_interrupted = 130; // 128 + SIGINT, as shells say it

struct RunFlags {
    EngineFlags engine;
    SamplingOptions sampling;
    std::string ram;
    std::string residency = "arena";
    PageFlags page;
    std::string prompt;
    std::string prompt_file;
    std::string system_prompt;
    std::string stats_path;
    std::string grammar_file;
    int64_t seed = -1; // random
    int32_t n_predict = -1;
    bool one_answer = false; // a prompt was given
    bool raw = false;
    bool quiet = false;
    bool no_profile = false;
};

// What the user sees before the weights load: the plan in two lines, on standard error.
void announce(const ModelLayout &layout, const MemoryPlan &plan, uint32_t ctx_tokens) {
    say("{} ({}): {} of weights, budget {} ({})\n", layout.name.empty() ? layout.files.front() : layout.name,
        layout.architecture, format_bytes(layout.total_bytes), format_bytes(plan.budget_bytes), plan.budget_source);
    if (layout.expert_tensors.empty()) {
        say("a dense model: there are no routed experts to stream, all weights are resident; ubatch {}\n",
            plan.ubatch_tokens);
    } else {
        say("resident {}, KV {}, compute {} (ubatch {}), overhead {}, reserve {}, arena {} for {} of experts{}\n",
            format_bytes(plan.fixed.resident), format_bytes(plan.fixed.kv), format_bytes(plan.fixed.compute),
            plan.ubatch_tokens, format_bytes(plan.fixed.overhead), format_bytes(plan.reserve_bytes),
            format_bytes(plan.arena_bytes), format_bytes(layout.routed_bytes),
            holds_all_experts(layout, plan) ? ": all fit" : "");
    }
    if (layout.context_length > 0 && ctx_tokens > layout.context_length) {
        say("note: the model was made for contexts of {} tokens\n", layout.context_length);
    }
}

// The same where there is no plan.
void announce_residency(const EngineOptions &options) {
    if (options.residency == Residency::page) {
        say("residency page: no budget; experts in a mapping of the file, dropped after {} tokens without use ({})\n",
            options.pager.hot_tokens, to_string(options.pager.evict));
    } else if (options.residency == Residency::stock) {
        say("residency stock: no budget; llama.cpp's own loader\n");
    }
}

// What larder does otherwise than it was asked to, or than on a machine of its own.
void announce_differences(const Engine &engine, const EngineOptions &asked) {
    if (asked.ctx_tokens > 0 && engine.ctx_tokens() != asked.ctx_tokens) {
        say("note: {}\n", rounded_context_note(asked.ctx_tokens));
    }
    const Cpus cpus = usable_cpus();
    if (asked.threads == 0 && engine.threads() == cpus.default_threads() && !cpus.bound_by().empty()) {
        say("threads: {} ({})\n", engine.threads(), cpus.bound_by());
    }
    if (const std::string note = numa_note(); !note.empty()) {
        say("NUMA: {}\n", note);
    }
}

int single_answer(Answerer &answerer, const Engine &engine, const RunFlags &flags) {
    std::string prompt = flags.prompt;
    const bool continues = !engine.has_chat_template() || flags.raw; // a continuation reads on from its beginning
    if (!continues) {
        std::vector<ChatMessage> messages;
        if (!flags.system_prompt.empty()) {
            messages.push_back({"system", flags.system_prompt});
        }
        messages.push_back({"user", prompt});
        prompt = engine.render_chat(messages);
    }
    answerer.answer(prompt, continues && !flags.quiet);
    print_now("\n");
    return engine.stop_requested() ? exit_interrupted : answerer.spoiled() ? 1 : 0;
}

// Writes the stats when it goes, whatever happened; an error in doing so must not hide the first one.
class StatsAtExit {
  public:
    StatsAtExit(const Engine &engine, StatsFile &file, Signals &signals)
        : engine_(engine), file_(file), signals_(signals) {}
    ~StatsAtExit() {
        signals_.clear_handlers();
        if (!written_) {
            try {
                file_.write(stats_json(engine_));
            } catch (const std::exception &error) {
                say("error: {}\n", error.what());
            }
        }
    }
    StatsAtExit(const StatsAtExit &) = delete;
    StatsAtExit &operator=(const StatsAtExit &) = delete;
    void write() {
        written_ = true;
        file_.write(stats_json(engine_));
    }

  private:
    const Engine &engine_;
    StatsFile &file_;
    Signals &signals_;
    bool written_ = false;
};

void write_stats_on_signal(const Engine &engine, StatsFile &file) {
    try {
        file.write(stats_json(engine));
    } catch (const std::exception &error) { // on the signal thread: said, not thrown
        say("error: {}\n", error.what());
    }
}

// The texts that flags name files for.
void read_files(RunFlags &flags) {
    if (!flags.prompt_file.empty()) {
        flags.prompt = read_text_file(flags.prompt_file, "-f", prompt_bytes_max);
    }
    if (flags.one_answer && flags.prompt.empty()) {
        throw Error(ErrorKind::usage, "the prompt is empty", "give some text, or neither -p nor -f to chat");
    }
    if (!flags.grammar_file.empty()) {
        flags.sampling.grammar = read_text_file(flags.grammar_file, "--grammar-file", grammar_bytes_max);
    }
}

// What larder tune has found for this model and budget goes where the user has said nothing. What is wrong with it is
// said, and it is not used. False if nothing was filled in.
bool use_profile(const RunFlags &flags, EngineOptions &options) {
    const Planner planner(options); // to know the context where none is named
    const std::string path = profile_path(planner.layout(), flags.ram);
    std::optional<TuneProfile> profile;
    try {
        profile = read_profile(path, planner.layout());
    } catch (const Error &error) {
        say("warning: {}\n", error.what());
    }
    if (!profile) {
        return false;
    }
    const AppliedProfile applied = apply_profile(*profile, path, planner.options().ctx_tokens, options);
    if (!applied.told.empty() && !flags.quiet) {
        say("profile: {}\n", applied.told);
    }
    return applied.any;
}

// A budget that would do without the profile is not refused for it: the machine may give less than when it was made.
std::unique_ptr<Engine> open_with_profile(const RunFlags &flags, const EngineOptions &options) {
    EngineOptions tuned = options;
    if (!use_profile(flags, tuned)) {
        return Engine::open(options);
    }
    try {
        return Engine::open(tuned);
    } catch (const Error &error) {
        if (error.kind() != ErrorKind::budget) {
            throw;
        }
    }
    if (!flags.quiet) {
        say("profile: not used, as what it holds does not fit into the budget now\n");
    }
    return Engine::open(options);
}

// Before anything is touched.
void check_outputs(const RunFlags &flags) {
    const std::string &trace_path = flags.engine.options.trace_path;
    if (flags.stats_path.empty() && trace_path.empty()) {
        return;
    }
    std::vector<NamedFile> inputs = model_files("-m", flags.engine.options.model_path);
    inputs.insert(inputs.end(), {{"-f", flags.prompt_file}, {"--grammar-file", flags.grammar_file}});
    refuse_overwriting(inputs, {{"--stats", flags.stats_path}, {"--trace", trace_path}});
    check_writable(trace_path, "--trace");
}

int run(RunFlags &flags) {
    Signals signals; // before any other thread
    check_outputs(flags);
    StatsFile stats_file(flags.stats_path);
    read_files(flags);
    flags.sampling.seed = static_cast<uint32_t>(flags.seed);
    EngineOptions options = engine_options(flags.engine, flags.ram);
    options.residency = residency_of(flags.residency);
    options.pager = pager_options(flags.page);
    refuse_unheeded(options.residency, flags.page, flags.ram, flags.engine.reserve, flags.engine.arena);
    options.progress = progress_bar();
    if (!flags.quiet) {
        options.on_plan = [&](const ModelLayout &layout, const MemoryPlan &plan) {
            announce(layout, plan, flags.engine.options.ctx_tokens);
        };
        // On a terminal the answer's last line may not be at its end.
        options.on_resize = [newline = isatty(STDOUT_FILENO) != 0 ? "\n" : ""](const std::string &what) {
            say("{}note: {}\n", newline, what);
        };
    }
    const bool may_have_profile = options.residency == Residency::arena && !flags.no_profile && any_profile();
    const std::unique_ptr<Engine> engine = may_have_profile ? open_with_profile(flags, options) : Engine::open(options);
    if (!flags.quiet) {
        announce_residency(options);
        say("kernels: {}\n", to_string(engine->kernels()));
        announce_differences(*engine, options);
    }
    if (!engine->reader_info().notice.empty()) {
        say("note: {}\n", engine->reader_info().notice);
    }
    signals.set_handlers([&engine] { engine->request_stop(); },
                         [&engine, &stats_file] { write_stats_on_signal(*engine, stats_file); });
    StatsAtExit stats_at_exit(*engine, stats_file, signals);
    Session session(*engine, flags.sampling);
    Answerer answerer(*engine, session, signals, flags.n_predict);
    const int code = flags.one_answer
                         ? single_answer(answerer, *engine, flags)
                         : run_chat(answerer, *engine, signals, {flags.system_prompt, flags.raw, flags.quiet});
    if (!flags.quiet && engine->stats().prompt_tokens > 0) {
        say("{}\n", stats_line(*engine));
    }
    if (const std::string more = above_plan(engine->plan(), engine->stats().memory.peak_rss_bytes);
        options.residency == Residency::arena && !more.empty()) {
        say("warning: {}\n", more);
    }
    stats_at_exit.write();
    engine->close_trace();
    return code;
}

void add_sampling_flags(CLI::App &command, RunFlags &flags) {
    SamplingOptions &sampling = flags.sampling;
    const auto add = [&](const char *name, auto &value, const char *text) {
        return command.add_option(name, value, text)->group("Sampling");
    };
    const CLI::Range probability(0.0, 1.0);
    add("-s,--seed", flags.seed, "seed of the sampler; -1 is random")->capture_default_str();
    add("--temp", sampling.temperature, "temperature; 0 is greedy")->capture_default_str();
    add("--top-k", sampling.top_k, "keep the k likeliest tokens; 0 keeps all")->capture_default_str();
    add("--top-p", sampling.top_p, "keep the likeliest tokens of total probability p")
        ->check(probability)
        ->capture_default_str();
    add("--min-p", sampling.min_p, "drop tokens less likely than p times the likeliest")
        ->check(probability)
        ->capture_default_str();
    add("--typical", sampling.typical_p, "locally typical sampling; 1 is off")
        ->check(probability)
        ->capture_default_str();
    add("--repeat-last-n", sampling.repeat_last_n, "tokens the penalties look back")->capture_default_str();
    add("--repeat-penalty", sampling.repeat_penalty, "penalty for repeated tokens; 1 is off")->capture_default_str();
    add("--presence-penalty", sampling.presence_penalty, "penalty for present tokens; 0 is off")->capture_default_str();
    add("--frequency-penalty", sampling.frequency_penalty, "penalty by frequency; 0 is off")->capture_default_str();
    command.add_flag("--ignore-eos", sampling.ignore_eos, "go on past the end of the answer, until -n")
        ->group("Sampling");
    CLI::Option *grammar = add("--grammar", sampling.grammar, "GBNF grammar the answer must follow");
    add("--grammar-file", flags.grammar_file, "the same from a file")->excludes(grammar);
}

void add_prompt_flags(CLI::App &command, RunFlags &flags) {
    const auto add = [&](const char *name, auto &value, const char *text) {
        return command.add_option(name, value, text)->group("Prompt and answer");
    };
    const auto given = [&flags](const std::string & /*text*/) { flags.one_answer = true; };
    CLI::Option *prompt = add("-p,--prompt", flags.prompt, "the prompt; without one, chat")->each(given);
    add("-f,--file", flags.prompt_file, "read the prompt from a file")->each(given)->excludes(prompt);
    CLI::Option *raw = command.add_flag("--raw", flags.raw, "no chat template: continue the prompt as it is")
                           ->group("Prompt and answer");
    add("--system-prompt", flags.system_prompt, "what the model shall be")->excludes(raw);
    add("-n,--predict,--n-predict", flags.n_predict, "tokens to generate; -1: until the answer ends")
        ->capture_default_str();
    add("--stats", flags.stats_path, "write figures as JSON to a file at exit, and on SIGUSR2");
    add("--trace", flags.engine.options.trace_path, "record to a file which experts each token was routed to");
    command.add_flag("-q,--quiet", flags.quiet, "print the answer only")->group("Prompt and answer");
}

} // namespace

void add_run(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<RunFlags>();
    CLI::App *command = app.add_subcommand("run", "answer a prompt, or chat, with a model bigger than its RAM budget");
    add_budget_flag(*command, flags->ram);
    command
        ->add_option("--residency", flags->residency,
                     "arena; or to compare with: page (experts in a file mapping), stock (llama.cpp's own loader)")
        ->check(CLI::IsMember(residency_names()))
        ->capture_default_str()
        ->group("Model and memory");
    add_engine_flags(*command, flags->engine);
    add_page_flags(*command, flags->page);
    command
        ->add_flag("--no-profile", flags->no_profile, "do not use what larder tune has found for this model and budget")
        ->group("Computing and reading");
    command->add_option("-b,--batch-size", flags->engine.options.batch_tokens, "tokens handed to llama.cpp at once")
        ->check(CLI::Range(1U, batch_tokens_max))
        ->capture_default_str()
        ->group("Computing and reading");
    add_prompt_flags(*command, *flags);
    add_sampling_flags(*command, *flags);
    command->callback([flags, &body] { body = [flags] { return run(*flags); }; });
}

} // namespace larder

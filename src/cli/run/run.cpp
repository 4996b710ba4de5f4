// larder run: answers a prompt, or chats.
#include "base/bytes.h"
#include "cli/command.h"
#include "cli/console/output_files.h"
#include "cli/console/progress_bar.h"
#include "cli/console/signals.h"
#include "cli/console/stats_file.h"
#include "cli/console/terminal.h"
#include "cli/console/text_file.h"
#include "cli/flags/model_flags.h"
#include "cli/flags/numbers.h"
#include "cli/flags/residency_flags.h"
#include "cli/run/answer.h"
#include "cli/run/chat.h"
#include "cli/tune/profile.h"
#include "lab/recorder/recorder.h"
#include "machine/cpus.h"
#include "machine/numa.h"
#include "runtime/planner.h"
#include "session/session.h"

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
    OpenOptions open;
    Budget budget;
    SamplingOptions sampling;
    Residency residency = Residency::arena;
    PageFlags page;
    std::string trace_path;
    std::string prompt;
    std::string prompt_file;
    std::string system_prompt;
    std::string stats_path;
    std::string grammar_file;
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
void announce_residency(Residency residency, const PagerOptions &pager) {
    if (residency == Residency::page) {
        say("residency page: no budget; experts in a mapping of the file, dropped after {} tokens without use ({})\n",
            pager.hot_tokens, to_string(pager.evict));
    } else if (residency == Residency::stock) {
        say("residency stock: no budget; llama.cpp's own loader\n");
    }
}

// What larder does otherwise than it was asked to, or than on a machine of its own.
void announce_differences(const OpenModel &model, const ContextSpec &asked) {
    if (asked.ctx_tokens > 0 && model.ctx_tokens() != asked.ctx_tokens) {
        say("note: {}\n", rounded_context_note(asked.ctx_tokens));
    }
    const Cpus cpus = usable_cpus();
    if (asked.threads == 0 && model.threads() == cpus.default_threads() && !cpus.bound_by().empty()) {
        say("threads: {} ({})\n", model.threads(), cpus.bound_by());
    }
    if (const std::string note = numa_note(); !note.empty()) {
        say("NUMA: {}\n", note);
    }
}

int single_answer(Answerer &answerer, const OpenModel &model, const RunFlags &flags) {
    std::string prompt = flags.prompt;
    const bool continues = !model.has_chat_template() || flags.raw; // a continuation reads on from its beginning
    if (!continues) {
        std::vector<ChatMessage> messages;
        if (!flags.system_prompt.empty()) {
            messages.push_back({"system", flags.system_prompt});
        }
        messages.push_back({"user", prompt});
        prompt = model.render_chat(messages);
    }
    answerer.answer(prompt, continues && !flags.quiet);
    print_now("\n");
    return model.stop_requested() ? exit_interrupted : 0;
}

// Writes the stats when it goes, whatever happened; an error in doing so must not hide the first one.
class StatsAtExit {
  public:
    StatsAtExit(const OpenModel &model, StatsFile &file, Signals &signals)
        : model_(model), file_(file), signals_(signals) {}
    ~StatsAtExit() {
        signals_.clear_handlers();
        if (!written_) {
            try {
                file_.write(stats_text(model_));
            } catch (const std::exception &error) {
                say("error: {}\n", error.what());
            }
        }
    }
    StatsAtExit(const StatsAtExit &) = delete;
    StatsAtExit &operator=(const StatsAtExit &) = delete;
    void write() {
        written_ = true;
        file_.write(stats_text(model_));
    }

  private:
    const OpenModel &model_;
    StatsFile &file_;
    Signals &signals_;
    bool written_ = false;
};

void write_stats_on_signal(const OpenModel &model, StatsFile &file) {
    try {
        file.write(stats_text(model));
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
bool use_profile(const RunFlags &flags, OpenOptions &options) {
    const ModelLayout layout = open_layout(options.model.path);
    const std::string path = profile_path(layout, flags.budget);
    std::optional<TuneProfile> profile;
    try {
        profile = read_profile(path, layout);
    } catch (const Error &error) {
        say("warning: {}\n", error.what());
    }
    if (!profile) {
        return false;
    }
    const uint32_t ctx_tokens = ctx_tokens_of(options.model.context, layout.context_length);
    const AppliedProfile applied = apply_profile(*profile, path, ctx_tokens, options);
    if (!applied.told.empty() && !flags.quiet) {
        say("profile: {}\n", applied.told);
    }
    return applied.any;
}

// A budget that would do without the profile is not refused for it: the machine may give less than when it was made.
std::unique_ptr<OpenModel> open_with_profile(const RunFlags &flags, const OpenOptions &options) {
    OpenOptions tuned = options;
    if (!use_profile(flags, tuned)) {
        return open_model(options);
    }
    try {
        return open_model(tuned);
    } catch (const Error &error) {
        if (error.kind() != ErrorKind::budget) {
            throw;
        }
    }
    if (!flags.quiet) {
        say("profile: not used, as what it holds does not fit into the budget now\n");
    }
    return open_model(options);
}

// Before anything is touched.
void check_outputs(const RunFlags &flags) {
    const std::string &trace_path = flags.trace_path;
    if (flags.stats_path.empty() && trace_path.empty()) {
        return;
    }
    std::vector<NamedFile> inputs = model_files("-m", flags.open.model.path);
    inputs.insert(inputs.end(), {{"-f", flags.prompt_file}, {"--grammar-file", flags.grammar_file}});
    refuse_overwriting(inputs, {{"--stats", flags.stats_path}, {"--trace", trace_path}});
    check_writable(trace_path, "--trace");
}

// The options, with what is to be shown and recorded meanwhile.
OpenOptions options_of(const RunFlags &flags, RouteRecorder *recorder) {
    OpenOptions options = with_budget(flags.open, flags.budget);
    options.model.observer = recorder;
    options.runtime.progress = progress_bar();
    if (!flags.quiet) {
        options.on_plan = [ctx_tokens = options.model.context.ctx_tokens](const ModelLayout &layout,
                                                                         const MemoryPlan &plan) {
            announce(layout, plan, ctx_tokens);
        };
        // On a terminal the answer's last line may not be at its end.
        options.runtime.on_resize = [newline = isatty(STDOUT_FILENO) != 0 ? "\n" : ""](const std::string &what) {
            say("{}note: {}\n", newline, what);
        };
    }
    return options;
}

std::unique_ptr<OpenModel> open_for(const RunFlags &flags, const OpenOptions &options) {
    const bool may_have_profile = flags.residency == Residency::arena && !flags.no_profile && any_profile();
    std::unique_ptr<OpenModel> model = may_have_profile
                                           ? open_with_profile(flags, options)
                                           : open_with(flags.residency, options, flags.page.options());
    if (!flags.quiet) {
        announce_residency(flags.residency, flags.page.options());
        say("kernels: {}\n", to_string(model->kernels()));
        announce_differences(*model, options.model.context);
    }
    if (!model->reader_info().notice.empty()) {
        say("note: {}\n", model->reader_info().notice);
    }
    return model;
}

void say_figures(const RunFlags &flags, const OpenModel &model) {
    const RunFigures figures = model.figures();
    if (!flags.quiet && figures.prompt_tokens > 0) {
        say("{}\n", stats_line(model));
    }
    const std::string more = above_plan(model.plan(), figures.memory.peak_rss_bytes);
    if (flags.residency == Residency::arena && !more.empty()) {
        say("warning: {}\n", more);
    }
}

int run(RunFlags &flags) {
    Signals signals; // before any other thread
    refuse_unheeded(flags.residency, flags.page, with_budget(flags.open, flags.budget));
    check_outputs(flags);
    StatsFile stats_file(flags.stats_path);
    read_files(flags);
    const auto recorder =
        flags.trace_path.empty() ? nullptr : std::make_unique<RouteRecorder>(flags.trace_path);
    const std::unique_ptr<OpenModel> model = open_for(flags, options_of(flags, recorder.get()));
    signals.set_handlers([&model] { model->request_stop(); },
                         [&model, &stats_file] { write_stats_on_signal(*model, stats_file); });
    StatsAtExit stats_at_exit(*model, stats_file, signals);
    Session session(*model, flags.sampling);
    Answerer answerer(*model, session, signals, flags.n_predict);
    const int code = flags.one_answer
                         ? single_answer(answerer, *model, flags)
                         : run_chat(answerer, *model, signals, {flags.system_prompt, flags.raw, flags.quiet});
    say_figures(flags, *model);
    stats_at_exit.write();
    if (recorder != nullptr) {
        recorder->close();
    }
    return code;
}

void add_sampling_flags(CLI::App &command, RunFlags &flags) {
    SamplingOptions &sampling = flags.sampling;
    const std::string group = "Sampling";
    const auto add_number = [&](const char *name, float &value, double min, double max, const char *text) {
        add_real(command, name, value, min, max, text)->default_str(fmt::format("{:g}", value))->group(group);
    };
    const auto add_count = [&](const char *name, int32_t &value, int64_t min, const char *text) {
        add_integer(command, name, value, min, INT32_MAX, text)->default_str(std::to_string(value))->group(group);
    };
    constexpr double any = 1e6; // far beyond any use
    detail::add_text_option(command, "-s,--seed", "seed of the sampler; -1 is random", "N",
                            [&sampling](const std::string &text) {
                                sampling.seed = static_cast<uint32_t>(parse_integer(text, "-s", -1, UINT32_MAX));
                            })
        ->default_str("-1")
        ->group(group);
    add_number("--temp", sampling.temperature, -any, any, "temperature; 0 is greedy");
    add_count("--top-k", sampling.top_k, -1, "keep the k likeliest tokens; 0 keeps all");
    add_number("--top-p", sampling.top_p, 0, 1, "keep the likeliest tokens of total probability p");
    add_number("--min-p", sampling.min_p, 0, 1, "drop tokens less likely than p times the likeliest");
    add_number("--typical", sampling.typical_p, 0, 1, "locally typical sampling; 1 is off");
    add_count("--repeat-last-n", sampling.repeat_last_n, -1, "tokens the penalties look back; -1: the context");
    add_number("--repeat-penalty", sampling.repeat_penalty, 0, any, "penalty for repeated tokens; 1 is off");
    add_number("--presence-penalty", sampling.presence_penalty, -any, any, "penalty for present tokens; 0 is off");
    add_number("--frequency-penalty", sampling.frequency_penalty, -any, any, "penalty by frequency; 0 is off");
    command.add_flag("--ignore-eos", sampling.ignore_eos, "go on past the end of the answer, until -n")->group(group);
    CLI::Option *grammar =
        command.add_option("--grammar", sampling.grammar, "GBNF grammar the answer must follow")->group(group);
    command.add_option("--grammar-file", flags.grammar_file, "the same from a file")->excludes(grammar)->group(group);
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
    add_integer(command, "-n,--predict,--n-predict", flags.n_predict, -1, INT32_MAX,
                "tokens to generate; -1: until the answer ends")
        ->default_str("-1")
        ->group("Prompt and answer");
    add("--stats", flags.stats_path, "write figures as JSON to a file at exit, and on SIGUSR2");
    add("--trace", flags.trace_path, "record to a file which experts each token was routed to");
    command.add_flag("-q,--quiet", flags.quiet, "print the answer only")->group("Prompt and answer");
}

} // namespace

void add_run(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<RunFlags>();
    CLI::App *command = app.add_subcommand("run", "answer a prompt, or chat, with a model bigger than its RAM budget");
    add_budget_flag(*command, flags->budget);
    add_residency_flag(*command, flags->residency);
    add_model_flags(*command, flags->open);
    add_page_flags(*command, flags->page);
    command
        ->add_flag("--no-profile", flags->no_profile, "do not use what larder tune has found for this model and budget")
        ->group("Computing and reading");
    add_batch_flag(*command, flags->open);
    add_prompt_flags(*command, *flags);
    add_sampling_flags(*command, *flags);
    command->callback([flags, &body] { body = [flags] { return run(*flags); }; });
}

} // namespace larder

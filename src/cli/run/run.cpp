// larder run: answers a prompt, or chats.
#include "cli/command.h"
#include "cli/console/output_files.h"
#include "cli/console/progress_bar.h"
#include "cli/console/signals.h"
#include "cli/console/stats_file.h"
#include "cli/console/terminal.h"
#include "cli/console/text_file.h"
#include "cli/console/write_file.h"
#include "cli/run/announce.h"
#include "cli/run/answer.h"
#include "cli/run/chat.h"
#include "cli/run/flags.h"
#include "cli/tune/profile.h"
#include "lab/recorder/recorder.h"
#include "runtime/fixed_bytes.h"
#include "session/session.h"
#include "text/grammar.h"
#include "text/text_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace larder {

namespace {

int single_answer(Answerer &answerer, const OpenModel &model, const RunFlags &flags) {
    if (!model.has_chat_template() || flags.raw) { // a continuation is printed after its beginning
        answerer.continuation(flags.prompt, !flags.quiet);
    } else {
        std::vector<ChatMessage> messages;
        if (!flags.system_prompt.empty()) {
            messages.push_back({"system", flags.system_prompt});
        }
        messages.push_back({"user", flags.prompt});
        answerer.answer(messages);
    }
    print_now("\n");
    return model.stop_requested() ? exit_interrupted : 0;
}

// Writes the stats file in its destructor, in every case. An error there must not replace the first one.
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
    } catch (const std::exception &error) { // on the signal thread: print the error, do not throw it
        say("error: {}\n", error.what());
    }
}

void refuse_empty_prompt(bool empty) {
    if (empty) {
        throw Error(ErrorKind::usage, "the prompt is empty", "give some text, or remove -p and -f to chat");
    }
}

// The file of -f. It is read when the length of the context is known: a longer text is not worth the memory.
std::optional<TextFile> open_prompt_file(const RunFlags &flags) {
    if (flags.prompt_file.empty()) {
        refuse_empty_prompt(flags.one_answer && flags.prompt.empty());
        return std::nullopt;
    }
    std::optional<TextFile> file(std::in_place, flags.prompt_file, "-f");
    refuse_empty_prompt(file->is_empty());
    return file;
}

void read_prompt(std::optional<TextFile> &file, uint32_t ctx_tokens, std::string &prompt) {
    if (file) {
        prompt = file->read(uint64_t{text_bytes_per_token} * ctx_tokens, "shorten it or raise -c");
        file.reset();
        refuse_empty_prompt(prompt.empty());
    }
}

void read_grammar(RunFlags &flags) {
    if (!flags.grammar_file.empty()) {
        flags.sampling.grammar = read_text_file(flags.grammar_file, "--grammar-file", grammar_bytes_max);
    }
    if (!flags.sampling.grammar.empty()) {
        check_grammar(flags.sampling.grammar);
    }
}

// Fills in what larder tune has found for this model and budget, where the user has set nothing. An invalid profile is
// reported and not used. Returns false if nothing was filled in.
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
    if (!applied.note.empty() && !flags.quiet) {
        say("profile: {}\n", applied.note);
    }
    return applied.any;
}

// If the plan with the profile does not fit the budget, tries again without the profile: less memory may be available
// than when the profile was made.
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
        say("profile: not used, because its settings do not fit into the budget now\n");
    }
    return open_model(options);
}

// Runs before any file is touched.
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

// The options, with the callbacks for progress, messages and traces.
OpenOptions options_of(const RunFlags &flags, RouteRecorder *recorder) {
    OpenOptions options = with_budget(flags.open, flags.budget);
    options.model.observer = recorder;
    options.runtime.progress = progress_bar();
    if (!flags.quiet) {
        options.on_plan = [ctx_tokens = options.model.context.ctx_tokens](const ModelLayout &layout,
                                                                          const MemoryPlan &plan) {
            announce_plan(layout, plan, ctx_tokens);
        };
        // On a terminal, the cursor may be in the middle of a line of the answer.
        options.runtime.on_resize = [newline = isatty(STDOUT_FILENO) != 0 ? "\n" : ""](const std::string &what) {
            say("{}note: {}\n", newline, what);
        };
    }
    return options;
}

std::unique_ptr<OpenModel> open_for(const RunFlags &flags, const OpenOptions &options) {
    const bool may_have_profile = flags.residency == Residency::arena && !flags.no_profile && any_profile();
    std::unique_ptr<OpenModel> model = may_have_profile ? open_with_profile(flags, options)
                                                        : open_with(flags.residency, options, flags.page.options());
    if (!flags.quiet) {
        announce_model(*model, options.model.context, flags.page.options());
    }
    if (!model->reader_info().notice.empty()) {
        say("note: {}\n", model->reader_info().notice);
    }
    return model;
}

int run(RunFlags &flags) {
    Signals signals; // must precede all other threads
    refuse_unheeded(flags.residency, flags.page, with_budget(flags.open, flags.budget));
    check_outputs(flags);
    StatsFile stats_file(flags.stats_path);
    start_text_process(); // while this process is small
    std::optional<TextFile> prompt_file = open_prompt_file(flags);
    read_grammar(flags);
    const auto recorder = flags.trace_path.empty() ? nullptr : std::make_unique<RouteRecorder>(flags.trace_path);
    const std::unique_ptr<OpenModel> model = open_for(flags, options_of(flags, recorder.get()));
    read_prompt(prompt_file, model->ctx_tokens(), flags.prompt);
    signals.set_handlers([&model] { model->request_stop(); },
                         [&model, &stats_file] { write_stats_on_signal(*model, stats_file); });
    StatsAtExit stats_at_exit(*model, stats_file, signals);
    Session session(*model, flags.sampling);
    Answerer answerer(*model, session, signals, {flags.n_predict, flags.special});
    const int code = flags.one_answer
                         ? single_answer(answerer, *model, flags)
                         : run_chat(answerer, *model, signals, {flags.system_prompt, flags.raw, flags.quiet});
    announce_figures(*model, flags.quiet);
    stats_at_exit.write();
    if (recorder != nullptr) {
        recorder->close();
    }
    return code;
}

} // namespace

void add_run(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<RunFlags>();
    CLI::App *command =
        app.add_subcommand("run", "answer a prompt, or chat, with a model that is bigger than its RAM budget");
    add_run_flags(*command, *flags);
    command->callback([flags, &body] { body = [flags] { return run(*flags); }; });
}

} // namespace larder

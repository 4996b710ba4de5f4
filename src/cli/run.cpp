// larder run: answers a prompt, or chats.
#include "base/bytes.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/progress_bar.h"
#include "cli/signals.h"
#include "cli/stats_file.h"
#include "engine/engine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

namespace larder {

namespace {

struct RunFlags {
    EngineFlags engine;
    SamplingOptions sampling;
    std::string ram;
    std::string prompt;
    std::string prompt_file;
    std::string system_prompt;
    std::string stats_path;
    std::string grammar_file;
    int32_t n_predict = -1;
    bool raw = false;
    bool quiet = false;
};

std::string read_text_file(const std::string &path, const std::string &flag) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw Error::from_errno(errno, fmt::format("{}: cannot read {}", flag, path), "check the path");
    }
    return {std::istreambuf_iterator<char>(file), {}};
}

// What the user sees before the first token: the plan in two lines, on standard error.
void announce(const Engine &engine) {
    const ModelLayout &layout = engine.layout();
    const MemoryPlan &plan = engine.plan();
    fmt::print(stderr, "{} ({}): {} of weights, budget {} ({})\n",
               layout.name.empty() ? layout.files.front() : layout.name, layout.architecture,
               format_bytes(layout.total_bytes), format_bytes(plan.budget_bytes), plan.budget_source);
    if (layout.expert_tensors.empty()) {
        fmt::print(stderr, "a dense model: there are no routed experts to stream, all weights are resident\n");
    } else {
        fmt::print(stderr, "resident {}, KV {}, compute {}, overhead {}, reserve {}, arena {} for {} of experts\n",
                   format_bytes(plan.fixed.resident), format_bytes(plan.fixed.kv), format_bytes(plan.fixed.compute),
                   format_bytes(plan.fixed.overhead), format_bytes(plan.reserve_bytes), format_bytes(plan.arena_bytes),
                   format_bytes(layout.routed_bytes));
    }
    if (!engine.reader_info().notice.empty()) {
        fmt::print(stderr, "note: {}\n", engine.reader_info().notice);
    }
}

// Makes one answer and streams it to standard output. What was said is returned.
class Answerer {
  public:
    Answerer(Engine &engine, Session &session, Signals &signals, int32_t n_predict)
        : engine_(engine), session_(session), signals_(signals), n_predict_(n_predict) {}

    std::string answer(const std::string &prompt) {
        engine_.clear_stop();
        signals_.answer_begins();
        std::string text;
        if (session_.prefill(engine_.tokenize(prompt, true))) {
            text = generate();
        }
        signals_.answer_ends();
        return text;
    }

  private:
    std::string generate() {
        std::string text;
        for (int32_t n = 0; n_predict_ < 0 || n < n_predict_; n++) {
            const Token token = session_.sample();
            if (engine_.is_end_of_generation(token) || engine_.stop_requested()) {
                break;
            }
            const std::string piece = engine_.piece(token);
            text += piece;
            fmt::print("{}", piece);
            std::fflush(stdout);
            if (n + 1 == n_predict_) {
                break;
            }
            if (session_.n_token() == engine_.ctx_tokens()) {
                fmt::print(stderr, "\nnote: the context of {} tokens is full; raise -c for more\n",
                           engine_.ctx_tokens());
                break;
            }
            if (!session_.decode(token)) {
                break;
            }
        }
        return text;
    }

    Engine &engine_;
    Session &session_;
    Signals &signals_;
    int32_t n_predict_;
};

// Returns the exit code: a failed answer is reported and the chat goes on, but it is not forgotten.
int chat(Answerer &answerer, const Engine &engine, Signals &signals, const RunFlags &flags) {
    int code = 0;
    const bool terminal = isatty(STDIN_FILENO) != 0;
    if (terminal) {
        fmt::print(stderr, "Type a message and press Enter. Ctrl-C stops an answer, Ctrl-D ends.\n");
    }
    std::vector<ChatMessage> messages;
    std::string text; // of the whole conversation, with --raw
    if (!flags.system_prompt.empty()) {
        messages.push_back({"system", flags.system_prompt});
    }
    const bool templated = engine.has_chat_template() && !flags.raw;
    for (std::string line;;) {
        if (terminal) {
            fmt::print("> ");
            std::fflush(stdout);
        }
        if (!signals.read_line(line)) {
            return code;
        }
        if (line.empty()) {
            continue;
        }
        const size_t text_before = text.size();
        const size_t messages_before = messages.size();
        try {
            if (templated) {
                messages.push_back({"user", line});
                messages.push_back({"assistant", answerer.answer(engine.render_chat(messages))});
            } else {
                text += line;
                text += answerer.answer(text);
            }
            fmt::print("\n");
            std::fflush(stdout);
        } catch (const Error &error) { // this answer failed; the conversation before it stands
            signals.answer_ends();
            messages.resize(messages_before);
            text.resize(text_before);
            fmt::print(stderr, "\nerror: {}\n", error.what());
            code = exit_code(error.kind());
        }
        if (signals.quit_requested()) {
            return code;
        }
    }
}

void single_answer(Answerer &answerer, const Engine &engine, const RunFlags &flags) {
    std::string prompt = flags.prompt;
    if (engine.has_chat_template() && !flags.raw) {
        std::vector<ChatMessage> messages;
        if (!flags.system_prompt.empty()) {
            messages.push_back({"system", flags.system_prompt});
        }
        messages.push_back({"user", prompt});
        prompt = engine.render_chat(messages);
    } else if (!flags.quiet) {
        fmt::print("{}", prompt); // a continuation reads on from its beginning
    }
    answerer.answer(prompt);
    fmt::print("\n");
    std::fflush(stdout); // before anything is said on standard error
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
            } catch (const Error &error) {
                fmt::print(stderr, "error: {}\n", error.what());
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
    } catch (const Error &error) { // on the signal thread: said, not thrown
        fmt::print(stderr, "error: {}\n", error.what());
    }
}

int run(RunFlags &flags) {
    Signals signals; // before any other thread
    StatsFile stats_file(flags.stats_path);
    if (!flags.prompt_file.empty()) {
        flags.prompt = read_text_file(flags.prompt_file, "-f");
    }
    if (!flags.grammar_file.empty()) {
        flags.sampling.grammar = read_text_file(flags.grammar_file, "--grammar-file");
    }
    EngineOptions options = engine_options(flags.engine, flags.ram);
    options.progress = progress_bar();
    const std::unique_ptr<Engine> engine = Engine::open(options);
    if (!flags.quiet) {
        announce(*engine);
    }
    signals.set_handlers([&engine] { engine->request_stop(); },
                         [&engine, &stats_file] { write_stats_on_signal(*engine, stats_file); });
    StatsAtExit stats_at_exit(*engine, stats_file, signals);
    Session session(*engine, flags.sampling);
    Answerer answerer(*engine, session, signals, flags.n_predict);
    int code = 0;
    if (flags.prompt.empty()) {
        code = chat(answerer, *engine, signals, flags);
    } else {
        single_answer(answerer, *engine, flags);
    }
    if (!flags.quiet) {
        fmt::print(stderr, "{}\n", stats_line(*engine));
    }
    stats_at_exit.write();
    return code;
}

void add_sampling_flags(CLI::App &command, RunFlags &flags) {
    SamplingOptions &sampling = flags.sampling;
    command.add_option("-s,--seed", sampling.seed, "seed of the sampler (default: random)");
    command.add_option("--temp", sampling.temperature, "temperature; 0 is greedy")->capture_default_str();
    command.add_option("--top-k", sampling.top_k, "keep the k likeliest tokens; 0 keeps all")->capture_default_str();
    command.add_option("--top-p", sampling.top_p, "keep the likeliest tokens of total probability p")
        ->capture_default_str();
    command.add_option("--min-p", sampling.min_p, "drop tokens less likely than p times the likeliest")
        ->capture_default_str();
    command.add_option("--typical", sampling.typical_p, "locally typical sampling; 1 is off")->capture_default_str();
    command.add_option("--repeat-last-n", sampling.repeat_last_n, "tokens the penalties look back")
        ->capture_default_str();
    command.add_option("--repeat-penalty", sampling.repeat_penalty, "penalty for repeated tokens; 1 is off")
        ->capture_default_str();
    command.add_option("--presence-penalty", sampling.presence_penalty, "penalty for present tokens; 0 is off")
        ->capture_default_str();
    command.add_option("--frequency-penalty", sampling.frequency_penalty, "penalty by frequency; 0 is off")
        ->capture_default_str();
    command.add_flag("--ignore-eos", sampling.ignore_eos, "go on past the end of the answer, until -n");
    command.add_option("--grammar", sampling.grammar, "GBNF grammar the answer must follow");
    command.add_option("--grammar-file", flags.grammar_file, "the same from a file");
}

} // namespace

void add_run(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<RunFlags>();
    CLI::App *command = app.add_subcommand("run", "answer a prompt, or chat, with a model bigger than its RAM budget");
    add_engine_flags(*command, flags->engine);
    command->add_option("--ram", flags->ram,
                        "budget of the whole process, like 8G (default: what the machine or cgroup can give)");
    command->add_option("-p,--prompt", flags->prompt, "the prompt; without one, chat");
    command->add_option("-f,--file", flags->prompt_file, "read the prompt from a file");
    command->add_option("--system-prompt", flags->system_prompt, "-sys: what the model shall be");
    command->add_option("-n,--predict,--n-predict", flags->n_predict, "tokens to generate; -1: until the answer ends")
        ->capture_default_str();
    command->add_flag("--raw", flags->raw, "no chat template: continue the prompt as it is");
    add_sampling_flags(*command, *flags);
    command->add_option("--stats", flags->stats_path, "write figures as JSON to a file at exit, and on SIGUSR2");
    command->add_flag("-q,--quiet", flags->quiet, "print the answer only");
    command->callback([flags, &body] { body = [flags] { return run(*flags); }; });
}

} // namespace larder

#include "cli/run/flags.h"

#include "cli/flags/numbers.h"

#include <fmt/format.h>

namespace larder {

namespace {

void add_sampling_flags(CLI::App &command, RunFlags &flags) {
    SamplingOptions &sampling = flags.sampling;
    const std::string group = "Sampling";
    const auto add_number = [&](const char *name, float &value, double min, double max, const char *text) {
        add_real(command, name, value, min, max, text)->default_str(fmt::format("{:g}", value))->group(group);
    };
    const auto add_count = [&](const char *name, int32_t &value, int64_t min, const char *text) {
        add_integer(command, name, value, min, INT32_MAX, text)->default_str(std::to_string(value))->group(group);
    };
    constexpr double any = 1e6; // far above any useful value
    detail::add_text_option(command, "-s,--seed", "seed of the sampler; -1 is random", "N",
                            [&sampling](const std::string &text) {
                                sampling.seed = static_cast<uint32_t>(parse_integer(text, "-s", -1, UINT32_MAX));
                            })
        ->default_str("-1")
        ->group(group);
    add_number("--temp", sampling.temperature, -any, any, "temperature; 0 is greedy");
    add_count("--top-k", sampling.top_k, -1, "keep the k most likely tokens; 0 keeps all");
    add_number("--top-p", sampling.top_p, 0, 1, "keep the most likely tokens whose probabilities add up to p");
    add_number("--min-p", sampling.min_p, 0, 1,
               "drop tokens with less than p times the probability of the most likely token");
    add_number("--typical", sampling.typical_p, 0, 1, "locally typical sampling; 1 is off");
    add_count("--repeat-last-n", sampling.repeat_last_n, -1,
              "number of latest tokens that penalties consider; -1: the context");
    add_number("--repeat-penalty", sampling.repeat_penalty, 0, any, "penalty for repeated tokens; 1 is off");
    add_number("--presence-penalty", sampling.presence_penalty, -any, any,
               "penalty for tokens that have occurred; 0 is off");
    add_number("--frequency-penalty", sampling.frequency_penalty, -any, any,
               "penalty for each occurrence of a token; 0 is off");
    command.add_flag("--ignore-eos", sampling.ignore_eos, "continue past the end of the answer, up to -n tokens")
        ->group(group);
    CLI::Option *grammar =
        command.add_option("--grammar", sampling.grammar, "GBNF grammar that the answer must follow")->group(group);
    command.add_option("--grammar-file", flags.grammar_file, "read the grammar from a file")
        ->excludes(grammar)
        ->group(group);
}

void add_prompt_flags(CLI::App &command, RunFlags &flags) {
    const auto add = [&](const char *name, auto &value, const char *text) {
        return command.add_option(name, value, text)->group("Prompt and answer");
    };
    const auto given = [&flags](const std::string & /*text*/) { flags.one_answer = true; };
    CLI::Option *prompt = add("-p,--prompt", flags.prompt, "the prompt; without -p and -f, larder chats")->each(given);
    add("-f,--file", flags.prompt_file, "read the prompt from a file")->each(given)->excludes(prompt);
    CLI::Option *raw = command.add_flag("--raw", flags.raw, "apply no chat template: continue the prompt as it is")
                           ->group("Prompt and answer");
    command
        .add_flag("--special", flags.special,
                  "read control tokens that are spelled out in messages, and print those of answers")
        ->group("Prompt and answer");
    add("--system-prompt", flags.system_prompt, "instructions for the model, before the conversation")->excludes(raw);
    add_integer(command, "-n,--predict,--n-predict", flags.n_predict, -1, INT32_MAX,
                "tokens to generate; -1: until the answer ends")
        ->default_str("-1")
        ->group("Prompt and answer");
    add("--stats", flags.stats_path, "write figures as JSON to this file at exit and on SIGUSR2");
    add("--trace", flags.trace_path, "record the experts to which each token was routed, in this file");
    command.add_flag("-q,--quiet", flags.quiet, "print only the answer")->group("Prompt and answer");
}

} // namespace

void add_run_flags(CLI::App &command, RunFlags &flags) {
    add_budget_flag(command, flags.budget);
    add_residency_flag(command, flags.residency);
    add_model_flags(command, flags.open);
    add_page_flags(command, flags.page);
    command
        .add_flag("--no-profile", flags.no_profile,
                  "ignore the settings that larder tune stored for this model and budget")
        ->group("Computing and reading");
    add_batch_flag(command, flags.open);
    add_prompt_flags(command, flags);
    add_sampling_flags(command, flags);
}

} // namespace larder

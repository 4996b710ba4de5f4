#include "cli/bench/side.h"

#include "base/bytes.h"
#include "cli/child/side.h"
#include "cli/console/text_file.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/residency_flags.h"
#include "layout/layout.h"
#include "lab/probe/probe.h"

#include <memory>

namespace larder {

namespace {

constexpr uint64_t text_bytes_max = 16 * MiB;

struct SideFlags {
    EngineFlags engine;
    std::string ram;
    std::string residency = "arena";
    PageFlags page;
    BenchTest test;
    BenchInput input;
    std::string text_file;
    uint64_t first = 1; // number of the first repetition
    uint64_t repetitions = 1;
    bool warmup = false;
    bool cold = false;
};

void measure(SideFlags &flags) {
    EngineOptions options = engine_options(flags.engine, flags.ram);
    options.residency = residency_of(flags.residency);
    options.pager = pager_options(flags.page);
    if (!flags.text_file.empty()) {
        flags.input.text = read_text_file(flags.text_file, "-f", text_bytes_max);
    }
    if (flags.cold) {
        drop_page_cache(open_layout(options.model_path).files);
    }
    const std::unique_ptr<Engine> engine = Engine::open(options);
    if (!engine->reader_info().notice.empty()) {
        tell("notice", engine->reader_info().notice);
    }
    BenchRun run(*engine, flags.test, flags.input);
    if (flags.warmup) {
        run.repeat(0);
    }
    for (uint64_t i = 0; i < flags.repetitions; i++) {
        tell("repetition", to_json(run.repeat(flags.first + i)));
    }
    tell("figures", nlohmann::ordered_json::parse(stats_json(*engine)));
}

} // namespace

nlohmann::ordered_json to_json(const Repetition &repetition) {
    nlohmann::ordered_json json = {{"n_token", repetition.n_token},
                                   {"wall_ms", repetition.wall_ms},
                                   {"stall_ms", repetition.stall_ms},
                                   {"expert_hits", repetition.expert_hits},
                                   {"expert_misses", repetition.expert_misses},
                                   {"bytes_read", repetition.bytes_read},
                                   {"bytes_dropped", repetition.bytes_dropped},
                                   {"bytes_reread", repetition.bytes_reread},
                                   {"cpu_ms_token", nullptr},
                                   {"token_repeated", repetition.token_repeated}};
    if (repetition.cpu_ms_token) {
        json["cpu_ms_token"] = *repetition.cpu_ms_token;
    }
    return json;
}

Repetition repetition_from(const nlohmann::ordered_json &json) {
    Repetition repetition;
    json.at("n_token").get_to(repetition.n_token);
    json.at("wall_ms").get_to(repetition.wall_ms);
    json.at("stall_ms").get_to(repetition.stall_ms);
    json.at("expert_hits").get_to(repetition.expert_hits);
    json.at("expert_misses").get_to(repetition.expert_misses);
    json.at("bytes_read").get_to(repetition.bytes_read);
    json.at("bytes_dropped").get_to(repetition.bytes_dropped);
    json.at("bytes_reread").get_to(repetition.bytes_reread);
    json.at("token_repeated").get_to(repetition.token_repeated);
    if (!json.at("cpu_ms_token").is_null()) {
        repetition.cpu_ms_token = json.at("cpu_ms_token").get<double>();
    }
    return repetition;
}

void add_bench_side(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<SideFlags>();
    CLI::App *command = app.add_subcommand("bench-side", "one row of bench")->group("");
    add_engine_flags(*command, flags->engine);
    command->add_option("-b,--batch-size", flags->engine.options.batch_tokens);
    command->add_option("--ram", flags->ram);
    command->add_option("--n-prompt", flags->test.n_prompt);
    command->add_option("--n-gen", flags->test.n_gen);
    command->add_option("--n-depth", flags->test.depth);
    command->add_option("--prompt", flags->input.text);
    command->add_option("--file", flags->text_file);
    command->add_option("--seed", flags->input.seed);
    command->add_flag("--go-on", flags->input.go_on);
    command->add_option("--first", flags->first);
    command->add_option("--repetitions", flags->repetitions);
    command->add_flag("--warmup", flags->warmup);
    command->add_option("--residency", flags->residency)->check(CLI::IsMember(residency_names()));
    add_page_flags(*command, flags->page);
    command->add_flag("--cold", flags->cold);
    command->callback([flags, &body] { body = [flags] { return run_side([&flags] { measure(*flags); }); }; });
}

} // namespace larder

#include "cli/verify/side.h"

#include "cli/child/child_process.h"
#include "cli/console/stats_file.h"
#include "cli/flags/engine_flags.h"
#include "cli/verify/logits_file.h"
#include "engine/engine.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <span>

namespace larder {

namespace {

struct SideFlags {
    EngineFlags engine;
    std::string ram;
    std::string prompt;
    uint32_t n_predict = 0;
    std::string write_logits;
    std::string reference;
    bool stock = false;
    bool plan = false;
};

int32_t top_of(std::span<const float> logits) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void write_row(uint32_t position, Token token, std::span<const float> logits, LogitsWriter &written,
               LogitsReference &reference) {
    written.append(token, logits);
    const XXH128_hash_t hash = XXH3_128bits(logits.data(), logits.size_bytes());
    const int32_t top = top_of(logits);
    fmt::print("{}\n", nlohmann::ordered_json{{"position", position},
                                              {"token", token},
                                              {"digest", fmt::format("{:016x}{:016x}", hash.high64, hash.low64)},
                                              {"top", top},
                                              {"top_logit", logits[static_cast<size_t>(top)]},
                                              {"error", reference.error_of(token, logits)}}
                           .dump());
}

int run_side(const SideFlags &flags) {
    EngineOptions options = engine_options(flags.engine, flags.ram);
    options.residency = flags.stock ? Residency::stock : Residency::arena;
    options.logits_for_all = true;
    if (flags.plan) {
        const PlannedRun planned = plan_only(options);
        const nlohmann::ordered_json figures = {{"kernels", to_string(planned.kernels)},
                                                {"ubatch_tokens", planned.memory.ubatch_tokens}};
        fmt::print("{}\n", nlohmann::ordered_json{{"figures", figures}}.dump());
        return 0;
    }
    const std::unique_ptr<Engine> engine = Engine::open(options);
    SamplingOptions greedy;
    greedy.temperature = 0;
    Session session(*engine, greedy);
    const std::vector<Token> prompt = engine->tokenize(flags.prompt, true);
    LogitsWriter written(flags.write_logits);
    LogitsReference reference(flags.reference);
    Token next = 0;
    session.on_batch = [&](uint32_t first, uint32_t count) {
        for (uint32_t i = 0; i < count; i++) {
            write_row(first + i, prompt[first + i], session.logits(i), written, reference);
        }
        next = top_of(session.logits(count - 1));
    };
    session.prefill(prompt);
    for (uint32_t n = 0; n < flags.n_predict && session.n_token() < engine->ctx_tokens(); n++) {
        const Token token = reference.next_token().value_or(next);
        const uint32_t position = session.n_token();
        session.decode(token);
        write_row(position, token, session.logits(0), written, reference);
        next = top_of(session.logits(0));
    }
    fmt::print("{}\n", nlohmann::ordered_json{{"figures", nlohmann::ordered_json::parse(stats_json(*engine))}}.dump());
    return 0;
}

Error did_not_finish(const std::string &name, int code) {
    const ErrorKind kind = code == 3 ? ErrorKind::budget : code == 2 ? ErrorKind::usage : ErrorKind::engine;
    if (code == 128 + SIGKILL) {
        return {kind, fmt::format("{} was killed (signal 9), most likely for want of memory", name),
                name == stock_name ? "use --kernels plain, which takes the least: stock llama.cpp maps the file there"
                                   : "lower --ram, or make room"};
    }
    return {
        kind,
        fmt::format("{} did not finish ({})", name,
                    code > 128 ? fmt::format("killed by signal {}", code - 128) : fmt::format("exit code {}", code)),
        "its own message stands above"};
}

} // namespace

VerifySide run_verify_side(const std::string &name, const std::vector<std::string> &arguments) {
    ChildProcess child(arguments);
    VerifySide side;
    for (std::string line; child.read_line(line);) {
        const auto json = nlohmann::ordered_json::parse(line, nullptr, false);
        if (json.is_discarded()) {
            break; // it died in the middle of a line
        }
        if (json.contains("figures")) {
            side.figures = json["figures"];
            continue;
        }
        side.rows.push_back({json.at("position"), json.at("token"), json.at("digest"), json.at("top"),
                             json.at("top_logit"), json.at("error")});
    }
    if (const int code = child.wait(); code != 0) {
        throw did_not_finish(name, code);
    }
    return side;
}

void add_verify_side(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<SideFlags>();
    CLI::App *command = app.add_subcommand("verify-side", "one side of verify")->group("");
    add_engine_flags(*command, flags->engine);
    command->add_option("--ram", flags->ram);
    command->add_option("-p,--prompt", flags->prompt)->required();
    command->add_option("-n,--predict", flags->n_predict);
    command->add_option("--write-logits", flags->write_logits);
    command->add_option("--reference", flags->reference);
    command->add_flag("--stock", flags->stock);
    command->add_flag("--plan", flags->plan);
    command->callback([flags, &body] { body = [flags] { return run_side(*flags); }; });
}

} // namespace larder

// kernels_bench — prefill and decode of stock llama.cpp and larder with each kind of kernels, in one process.
//
//   kernels_bench MODEL [--arena SIZE] [-t THREADS] [--rounds N] [--prefill TOKENS] [--decode TOKENS]
//
// The kinds of kernels are measured one after the other. For each, stock and larder take turns: in every round both
// evaluate the same prompt and decode the same tokens after it. The first token of the prompt differs between rounds,
// so that nothing of it is in the KV cache. The first round is not counted, because it reads weights. Prints medians.
// `fast` has no equivalent in stock llama.cpp and is compared with stock's repacked kernels.
#include "base/bytes.h"
#include "lab/residency/residency.h"
#include "session/session.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace larder {
namespace {

struct Flags {
    std::string model;
    std::string arena;
    std::string only;
    uint32_t threads = 0;
    uint32_t rounds = 7;
    uint32_t prefill = 512;
    uint32_t decode = 64;
};

struct Contender {
    std::string name;
    std::unique_ptr<OpenModel> model;
    std::unique_ptr<Session> session;
    std::vector<double> prefill_rates;
    std::vector<double> decode_rates;
};

double seconds_of(const auto &work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

Contender open_contender(const Flags &flags, Residency residency, Kernels kernels) {
    OpenOptions options;
    options.model.path = flags.model;
    options.model.kernels = kernels;
    options.model.context.threads = flags.threads;
    options.model.context.ctx_tokens = flags.prefill + flags.decode + 8;
    options.model.context.ubatch_tokens = flags.prefill;
    if (!flags.arena.empty() && residency == Residency::arena) {
        options.runtime.plan.arena_bytes = parse_bytes(flags.arena, "--arena");
    }
    Contender contender{fmt::format("{} {}", residency == Residency::stock ? "stock" : "larder", to_string(kernels)),
                        open_with(residency, options, {}),
                        nullptr,
                        {},
                        {}};
    SamplingOptions greedy;
    greedy.temperature = 0;
    contender.session = std::make_unique<Session>(*contender.model, greedy);
    return contender;
}

void run_round(Contender &contender, const Flags &flags, uint32_t round) {
    std::mt19937 random(1);
    std::vector<Token> tokens(flags.prefill);
    std::ranges::generate(tokens, [&] { return static_cast<Token>(random() % contender.model->n_vocab()); });
    tokens.front() = static_cast<Token>(round + 1);
    const double prefill_s = seconds_of([&] { contender.session->prefill(tokens); });
    const double decode_s = seconds_of([&] {
        for (uint32_t i = 0; i < flags.decode; i++) {
            contender.session->decode(static_cast<Token>(random() % contender.model->n_vocab()));
        }
    });
    if (round > 0) {
        contender.prefill_rates.push_back(flags.prefill / prefill_s);
        contender.decode_rates.push_back(flags.decode / decode_s);
    }
}

void bench_path(const Flags &flags, Kernels kernels) {
    std::array<Contender, 2> contenders = {
        open_contender(flags, Residency::stock, kernels == Kernels::fast ? Kernels::repacked : kernels),
        open_contender(flags, Residency::arena, kernels)};
    for (uint32_t round = 0; round <= flags.rounds; round++) {
        for (Contender &contender : contenders) {
            run_round(contender, flags, round);
        }
    }
    for (const Contender &contender : contenders) {
        const StoreStats store = contender.model->figures().store;
        fmt::print("{:<16} prefill {:>8.2f} tok/s  decode {:>7.2f} tok/s  {} read\n", contender.name,
                   median(contender.prefill_rates), median(contender.decode_rates), format_bytes(store.bytes_read));
    }
}

int bench(const Flags &flags) {
    for (const Kernels kernels : {Kernels::plain, Kernels::mixed, Kernels::repacked, Kernels::fast}) {
        if (flags.only.empty() || flags.only == to_string(kernels)) {
            bench_path(flags, kernels);
        }
    }
    return 0;
}

} // namespace
} // namespace larder

int main(int argc, char **argv) {
    larder::Flags flags;
    CLI::App app("Stock llama.cpp and larder on each path of kernels, in turns");
    app.add_option("model", flags.model, "a GGUF that fits into RAM twice")->required();
    app.add_option("--arena", flags.arena, "at most this much for experts (default: all)");
    app.add_option("--only", flags.only, "one path: plain, mixed, repacked or fast");
    app.add_option("-t,--threads", flags.threads, "threads");
    app.add_option("--rounds", flags.rounds, "rounds that count");
    app.add_option("--prefill", flags.prefill, "tokens of the prompt");
    app.add_option("--decode", flags.decode, "tokens after it");
    CLI11_PARSE(app, argc, argv);
    try {
        return larder::bench(flags);
    } catch (const larder::Error &error) {
        fmt::print(stderr, "error: {}\n", error.what());
        return larder::exit_code(error.kind());
    }
}

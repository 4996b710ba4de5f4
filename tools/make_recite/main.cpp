// larder-make-recite: writes a model of real shape that routes like a trace, for benchmarks.
#include "gguf_writer.h"
#include "presets.h"
#include "program.h"
#include "recital.h"
#include "routing.h"
#include "words.h"

#include "base/error.h"
#include "lab/trace/trace.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <ggml-cpp.h>

#include <charconv>
#include <string>
#include <string_view>

namespace {

using larder::Error;
using larder::ErrorKind;
namespace make_model = larder::make_model;
namespace make_recite = larder::make_recite;

struct Options {
    std::string arch;
    std::string preset;
    std::string quant;
    std::string out;
    std::string trace;
    std::string synthetic = "1:0.2:512";
    make_model::Shape shape = make_model::nothing_given;
    uint64_t seed = 1;
};

std::string shape_help() {
    std::string help = "Sizes of a model that people run, which the flags below may change:";
    for (const make_recite::Preset &preset : make_recite::presets()) {
        help += fmt::format("\n{}: {}, {}", preset.name, preset.architecture, preset.what);
    }
    return help;
}

void add_options(CLI::App &app, Options &options) {
    app.footer(make_recite::fold_rules);
    auto *trace = app.add_option("--trace", options.trace, "Trace to recite; docs/traces.md describes the formats");
    app.add_option("--synthetic", options.synthetic,
                   "Recite a trace made up as SKEW:REUSE:TOKENS: Zipf exponent of the experts' popularity, share of "
                   "experts that the next token uses again, tokens")
        ->capture_default_str()
        ->excludes(trace);
    auto *preset = app.add_option("--shape", options.preset, shape_help());
    app.add_option("--arch", options.arch, "Small model of an architecture: qwen3moe, qwen35moe, smallthinker")
        ->excludes(preset);
    make_model::add_shape_options(app, options.shape);
    app.add_option("--quant", options.quant, "Quantisation (default: q4_k_m)");
    app.add_option("-o,--out", options.out, "File to write");
    app.add_option("--seed", options.seed, "Seed of the weights and of a made-up trace")->capture_default_str();
}

// Parses one of the three numbers of --synthetic, and removes it from `text`.
template <typename Number> Number take_number(std::string_view &text, char end) {
    const size_t length = std::min(text.find(end), text.size());
    Number value{};
    const auto [last, error] = std::from_chars(text.data(), text.data() + length, value);
    if (error != std::errc() || last != text.data() + length) {
        throw Error(ErrorKind::usage, fmt::format("--synthetic: '{}' is not a number", text.substr(0, length)),
                    "give SKEW:REUSE:TOKENS, as in 1:0.2:512");
    }
    text.remove_prefix(std::min(text.size(), length + 1));
    return value;
}

larder::RoutingTrace chosen_trace(const Options &options, const make_model::Shape &shape) {
    if (!options.trace.empty()) {
        return larder::read_trace(options.trace);
    }
    std::string_view text = options.synthetic;
    larder::SyntheticTrace wanted{.n_layer = shape.layers, .n_expert = shape.experts, .top_k = shape.top_k};
    wanted.skew = take_number<double>(text, ':');
    wanted.reuse = take_number<double>(text, ':');
    wanted.n_token = take_number<uint32_t>(text, '\0');
    wanted.seed = options.seed;
    if (wanted.n_token < 1 || wanted.n_token > shape.embd) {
        throw Error(ErrorKind::usage, fmt::format("--synthetic: {} tokens", wanted.n_token),
                    fmt::format("a model with --embd {} can recite 1 to {}", shape.embd, shape.embd));
    }
    return larder::synthesise_trace(wanted);
}

make_model::Shape checked_shape(const Options &options, const make_model::Architecture &architecture) {
    const make_model::Shape shape = make_model::chosen_shape(
        options.shape, options.preset.empty() ? architecture.defaults : make_recite::find_preset(options.preset).shape);
    make_model::check_shape(architecture, shape);
    if (!make_recite::Hadamard::has(shape.embd)) {
        throw Error(ErrorKind::usage, fmt::format("--embd {}: no orthogonal rows of +1 and -1 are known", shape.embd),
                    "take a power of two, or 12 or 20 times one");
    }
    return shape;
}

void run(const Options &options) {
    if ((options.arch.empty() && options.preset.empty()) || options.out.empty()) {
        throw Error(ErrorKind::usage, "--shape (or --arch) and --out are needed", "--help shows what there is");
    }
    const make_model::Architecture &architecture = make_recite::find_reciter(
        options.preset.empty() ? options.arch : make_recite::find_preset(options.preset).architecture);
    const make_model::Quant &quant = make_model::find_quant(options.quant.empty() ? "q4_k_m" : options.quant);
    const make_model::Shape shape = checked_shape(options, architecture);
    const larder::RoutingTrace trace = chosen_trace(options, shape);
    const make_recite::Routing routing = make_recite::fold(trace, shape);
    if (shape.vocab < routing.tokens() + make_recite::other_tokens) {
        throw Error(ErrorKind::usage,
                    fmt::format("--vocab {} is too small for {} tokens", shape.vocab, routing.tokens()),
                    fmt::format("take at least {}", routing.tokens() + make_recite::other_tokens));
    }

    const gguf_context_ptr metadata(gguf_init_empty());
    make_model::write_description(metadata.get(), architecture, shape, quant);
    gguf_set_val_str(metadata.get(), "general.name", fmt::format("larder recite of {}", trace.name).c_str());
    gguf_set_val_u32(metadata.get(), "larder.recite.tokens", routing.tokens());
    make_recite::write_words(metadata.get(), routing.tokens(), shape.vocab);
    std::vector<make_model::Tensor> tensors = make_model::typed_tensors(metadata.get(), architecture, shape, quant);
    for (make_model::Tensor &tensor : tensors) {
        if (tensor.shape.name == "token_embd.weight") {
            tensor.type = make_recite::embedding_type(tensor.type);
        }
    }

    make_recite::Recital recital(options.seed, routing, shape.embd);
    make_model::write_model(
        {options.out}, metadata.get(), tensors,
        [&](const make_model::Tensor &tensor, const make_model::Sink &sink) { recital.generate(tensor, sink); });
    make_model::print_summary(options.out, architecture, quant, tensors);
    fmt::print("recites {} tokens of {}; begin with the prompt \"t0 t1 t2\"\n", routing.tokens(), trace.name);
}

} // namespace

int main(int argc, char **argv) {
    CLI::App app{"Writes a GGUF model that recites a routing trace: greedy decode walks the trace token by token, and "
                 "every layer routes as it says, on any engine.",
                 "larder-make-recite"};
    Options options;
    add_options(app, options);
    return make_model::run_program(app, argc, argv, [&] { run(options); });
}

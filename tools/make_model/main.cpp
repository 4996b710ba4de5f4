// larder-make-model: writes a small model with random weights, for tests and for the demo.
#include "architectures.h"
#include "gguf_writer.h"
#include "program.h"
#include "quants.h"
#include "vocabulary.h"
#include "weights.h"

#include "base/error.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <ggml-cpp.h>

#include <string>
#include <vector>

namespace {

using larder::Error;
using larder::ErrorKind;
namespace make_model = larder::make_model;

struct Options {
    std::string arch;
    std::string quant;
    std::string out;
    make_model::Shape shape = make_model::nothing_given;
    uint64_t seed = 1;
    uint32_t shards = 1;
    bool list = false;
};

void add_options(CLI::App &app, Options &options) {
    app.add_option("--arch", options.arch, "Architecture, as llama.cpp calls it");
    app.add_option("--quant", options.quant, "Quantisation (default: by architecture)");
    app.add_option("-o,--out", options.out, "File to write; with --split, PREFIX.gguf of the shards");
    make_model::add_shape_options(app, options.shape);
    app.add_option("--seed", options.seed, "Seed of the weights")->capture_default_str();
    app.add_option("--split", options.shards, "Number of shards")->check(CLI::Range(1, 1000))->capture_default_str();
    app.add_flag("--list", options.list, "List architectures and quantisations");
}

void print_list() {
    fmt::print("{:<14}{:<9}{:>7}{:>9}{:>7}{:>6}{:>6}{:>7}\n", "architecture", "quant", "layers", "experts", "top-k",
               "embd", "ff", "heads");
    for (const make_model::Architecture &a : make_model::architectures()) {
        const make_model::Shape &s = a.defaults;
        fmt::print("{:<14}{:<9}{:>7}{:>9}{:>7}{:>6}{:>6}{:>7}\n", a.name, a.quant, s.layers, s.experts, s.top_k, s.embd,
                   s.ff, s.heads);
    }
    fmt::print("\nquantisations:");
    for (const make_model::Quant &quant : make_model::quants()) {
        fmt::print(" {}", quant.name);
    }
    fmt::print("\n");
}

void run(const Options &options) {
    if (options.list) {
        print_list();
        return;
    }
    if (options.arch.empty() || options.out.empty()) {
        throw Error(ErrorKind::usage, "--arch and --out are needed", "--list shows what there is");
    }
    const make_model::Architecture &architecture = make_model::find_architecture(options.arch);
    const make_model::Quant &quant =
        make_model::find_quant(options.quant.empty() ? architecture.quant : std::string_view(options.quant));
    const make_model::Shape shape = make_model::chosen_shape(options.shape, architecture.defaults);
    make_model::check_shape(architecture, shape);

    const gguf_context_ptr metadata(gguf_init_empty());
    make_model::write_description(metadata.get(), architecture, shape, quant);
    make_model::write_vocabulary(metadata.get(), shape.vocab);
    const std::vector<make_model::Tensor> tensors =
        make_model::typed_tensors(metadata.get(), architecture, shape, quant);
    if (options.shards > tensors.size()) {
        throw Error(ErrorKind::usage, fmt::format("--split: the model has only {} tensors", tensors.size()));
    }

    const auto paths = make_model::model_paths(options.out, options.shards);
    make_model::Weights weights(options.seed, [&](const make_model::TensorShape &tensor) {
        return make_model::full_strength(tensor, architecture.small_embedding);
    });
    make_model::write_model(
        paths, metadata.get(), tensors,
        [&](const make_model::Tensor &tensor, const make_model::Sink &sink) { weights.generate(tensor, sink); });
    make_model::print_summary(paths.front(), architecture, quant, tensors);
}

} // namespace

int main(int argc, char **argv) {
    CLI::App app{"Writes a GGUF model with random weights, for tests and for the demo.", "larder-make-model"};
    Options options;
    add_options(app, options);
    return make_model::run_program(app, argc, argv, [&] { run(options); });
}

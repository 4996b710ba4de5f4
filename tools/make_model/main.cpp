// larder-make-model: writes a small model with random weights, for tests and for the demo.
#include "architectures.h"
#include "gguf_writer.h"
#include "quants.h"
#include "tensor_list.h"
#include "vocabulary.h"
#include "weights.h"

#include "base/bytes.h"
#include "base/error.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <ggml-cpp.h>

#include <cstdio>
#include <filesystem>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace {

using larder::Error;
using larder::ErrorKind;
namespace make_model = larder::make_model;

// A size that was not given on the command line.
constexpr uint32_t by_default = std::numeric_limits<uint32_t>::max();

struct Options {
    std::string arch;
    std::string quant;
    std::string out;
    make_model::Shape shape{by_default, by_default, by_default, by_default,
                            by_default, by_default, by_default, by_default};
    uint64_t seed = 1;
    uint32_t shards = 1;
    bool list = false;
};

void add_options(CLI::App &app, Options &options) {
    app.add_option("--arch", options.arch, "Architecture, as llama.cpp calls it");
    app.add_option("--quant", options.quant, "Quantisation (default: by architecture)");
    app.add_option("-o,--out", options.out, "File to write; with --split, PREFIX.gguf of the shards");
    app.add_option("--layers", options.shape.layers, "Layers");
    app.add_option("--experts", options.shape.experts, "Experts in a layer");
    app.add_option("--top-k", options.shape.top_k, "Experts used for a token");
    app.add_option("--embd", options.shape.embd, "Embedding size");
    app.add_option("--ff", options.shape.ff, "Hidden size of an expert");
    app.add_option("--heads", options.shape.heads, "Attention heads");
    app.add_option("--vocab", options.shape.vocab, "Tokens, special ones included");
    app.add_option("--ctx", options.shape.ctx, "Context length the model claims");
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

make_model::Shape chosen_shape(const make_model::Shape &given, const make_model::Shape &defaults) {
    make_model::Shape shape = defaults;
    for (const auto field :
         {&make_model::Shape::layers, &make_model::Shape::experts, &make_model::Shape::top_k, &make_model::Shape::embd,
          &make_model::Shape::ff, &make_model::Shape::heads, &make_model::Shape::vocab, &make_model::Shape::ctx}) {
        if (given.*field != by_default) {
            shape.*field = given.*field;
        }
    }
    return shape;
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
    const make_model::Shape shape = chosen_shape(options.shape, architecture.defaults);
    make_model::check_shape(architecture, shape);

    const gguf_context_ptr metadata(gguf_init_empty());
    make_model::write_hyper_parameters(metadata.get(), architecture, shape);
    gguf_set_val_u32(metadata.get(), "general.quantization_version", GGML_QNT_VERSION);
    gguf_set_val_u32(metadata.get(), "general.file_type", quant.file_type);
    make_model::write_vocabulary(metadata.get(), shape.vocab);

    std::vector<make_model::Tensor> tensors;
    uint64_t bytes = 0;
    uint64_t expert_bytes = 0;
    for (make_model::TensorShape &tensor :
         make_model::list_tensors(metadata.get(), architecture.optional_tensors(shape))) {
        const ggml_type type = make_model::tensor_type(quant, tensor.name, tensor.extent);
        tensors.push_back({std::move(tensor), type});
        bytes += tensors.back().bytes();
        expert_bytes += tensors.back().shape.name.ends_with("_exps.weight") ? tensors.back().bytes() : 0;
    }
    if (options.shards > tensors.size()) {
        throw Error(ErrorKind::usage, fmt::format("--split: the model has only {} tensors", tensors.size()));
    }

    const auto paths = make_model::model_paths(options.out, options.shards);
    make_model::Weights weights(options.seed, architecture.small_embedding);
    make_model::write_model(paths, metadata.get(), tensors, weights);
    fmt::print("{}: {} {}, {} tensors, {} (routed experts {})\n", paths.front().string(), architecture.name, quant.name,
               tensors.size(), larder::format_bytes(bytes), larder::format_bytes(expert_bytes));
}

int report(const Error &error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return larder::exit_code(error.kind());
}

} // namespace

int main(int argc, char **argv) {
    CLI::App app{"Writes a GGUF model with random weights, for tests and for the demo.", "larder-make-model"};
    Options options;
    add_options(app, options);
    try {
        app.parse(argc, argv);
        run(options);
        return 0;
    } catch (const CLI::ParseError &error) {
        return app.exit(error) == 0 ? 0 : larder::exit_code(ErrorKind::usage);
    } catch (const Error &error) {
        return report(error);
    } catch (const std::bad_alloc &) {
        return report({ErrorKind::io, "out of memory"});
    } catch (const std::exception &error) {
        return report({ErrorKind::engine, error.what()});
    }
}

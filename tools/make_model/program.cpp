#include "program.h"

#include "base/bytes.h"
#include "base/error.h"

#include <fmt/format.h>

#include <cstdio>
#include <new>
#include <utility>

namespace larder::make_model {

namespace {

int report(const Error &error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return exit_code(error.kind());
}

} // namespace

void add_shape_options(CLI::App &app, Shape &given) {
    app.add_option("--layers", given.layers, "Layers");
    app.add_option("--experts", given.experts, "Experts in a layer");
    app.add_option("--top-k", given.top_k, "Experts used for a token");
    app.add_option("--embd", given.embd, "Embedding size");
    app.add_option("--ff", given.ff, "Hidden size of an expert");
    app.add_option("--heads", given.heads, "Attention heads");
    app.add_option("--kv-heads", given.kv_heads, "Heads of keys and values");
    app.add_option("--head-dim", given.head_dim, "Size of an attention head");
    app.add_option("--vocab", given.vocab, "Tokens, special ones included");
    app.add_option("--ctx", given.ctx, "Context length the model claims");
}

Shape chosen_shape(const Shape &given, const Shape &defaults) {
    Shape shape = defaults;
    for (const auto field : {&Shape::layers, &Shape::experts, &Shape::top_k, &Shape::embd, &Shape::ff, &Shape::heads,
                             &Shape::vocab, &Shape::ctx, &Shape::kv_heads, &Shape::head_dim}) {
        if (given.*field != by_default) {
            shape.*field = given.*field;
        }
    }
    return shape;
}

void write_description(gguf_context *metadata, const Architecture &architecture, const Shape &shape,
                       const Quant &quant) {
    write_hyper_parameters(metadata, architecture, shape);
    gguf_set_val_u32(metadata, "general.quantization_version", GGML_QNT_VERSION);
    gguf_set_val_u32(metadata, "general.file_type", quant.file_type);
}

std::vector<Tensor> typed_tensors(const gguf_context *metadata, const Architecture &architecture, const Shape &shape,
                                  const Quant &quant) {
    std::vector<Tensor> tensors;
    for (TensorShape &tensor : list_tensors(metadata, architecture.optional_tensors(shape))) {
        const ggml_type type = tensor_type(quant, tensor.name, tensor.extent);
        tensors.push_back({std::move(tensor), type});
    }
    return tensors;
}

void print_summary(const std::filesystem::path &path, const Architecture &architecture, const Quant &quant,
                   const std::vector<Tensor> &tensors) {
    uint64_t bytes = 0;
    uint64_t expert_bytes = 0;
    for (const Tensor &tensor : tensors) {
        bytes += tensor.bytes();
        expert_bytes += tensor.shape.name.ends_with("_exps.weight") ? tensor.bytes() : 0;
    }
    fmt::print("{}: {} {}, {} tensors, {} (routed experts {})\n", path.string(), architecture.name, quant.name,
               tensors.size(), format_bytes(bytes), format_bytes(expert_bytes));
}

int run_program(CLI::App &app, int argc, char **argv, const std::function<void()> &run) {
    try {
        app.parse(argc, argv);
        run();
        return 0;
    } catch (const CLI::ParseError &error) {
        return app.exit(error) == 0 ? 0 : exit_code(ErrorKind::usage);
    } catch (const Error &error) {
        return report(error);
    } catch (const std::bad_alloc &) {
        return report({ErrorKind::io, "out of memory"});
    } catch (const std::exception &error) {
        return report({ErrorKind::engine, error.what()});
    }
}

} // namespace larder::make_model

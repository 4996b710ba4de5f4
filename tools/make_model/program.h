// program.h — what the programs that write models have in common: flags, exit codes, the description of the model.
#pragma once

#include "architectures.h"
#include "quants.h"
#include "weights.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <functional>
#include <limits>
#include <vector>

namespace larder::make_model {

// A size that was not given on the command line.
inline constexpr uint32_t by_default = std::numeric_limits<uint32_t>::max();

inline constexpr Shape nothing_given = {by_default, by_default, by_default, by_default, by_default, by_default,
                                        by_default, by_default, by_default, by_default, by_default};

void add_shape_options(CLI::App &app, Shape &given);

// `defaults`, but for what was given.
Shape chosen_shape(const Shape &given, const Shape &defaults);

// All keys but those of the vocabulary.
void write_description(gguf_context *metadata, const Architecture &architecture, const Shape &shape,
                       const Quant &quant);

// The model's tensors with the types that the quantisation gives them. `metadata` has everything.
std::vector<Tensor> typed_tensors(const gguf_context *metadata, const Architecture &architecture, const Shape &shape,
                                  const Quant &quant);

// One line: what was written, and how much of it is routed experts.
void print_summary(const std::filesystem::path &path, const Architecture &architecture, const Quant &quant,
                   const std::vector<Tensor> &tensors);

// Parses the command line, runs, reports errors in one line; returns the exit code.
int run_program(CLI::App &app, int argc, char **argv, const std::function<void()> &run);

} // namespace larder::make_model

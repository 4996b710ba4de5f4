// program.h — common code of the programs that write models: flags, exit codes, the description of the model.
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

// Marks a size that is not given on the command line.
inline constexpr uint32_t by_default = std::numeric_limits<uint32_t>::max();

inline constexpr Shape nothing_given = {by_default, by_default, by_default, by_default, by_default, by_default,
                                        by_default, by_default, by_default, by_default, by_default};

void add_shape_options(CLI::App &app, Shape &given);

// `defaults`, overridden by the given sizes.
Shape chosen_shape(const Shape &given, const Shape &defaults);

// Writes all keys except those of the vocabulary.
void write_description(gguf_context *metadata, const Architecture &architecture, const Shape &shape,
                       const Quant &quant);

// The model's tensors with their types in this quantisation. `metadata` must be complete.
std::vector<Tensor> typed_tensors(const gguf_context *metadata, const Architecture &architecture, const Shape &shape,
                                  const Quant &quant);

// Prints one line: the model, its size, and the size of its routed experts.
void print_summary(const std::filesystem::path &path, const Architecture &architecture, const Quant &quant,
                   const std::vector<Tensor> &tensors);

// Parses the command line, calls `run`, and reports errors in one line. Returns the exit code.
int run_program(CLI::App &app, int argc, char **argv, const std::function<void()> &run);

} // namespace larder::make_model

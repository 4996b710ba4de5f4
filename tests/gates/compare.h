// compare.h — compares larder's logits with stock llama.cpp's in one process.
#pragma once

#include "support/model_fixture.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace larder::test {

// The logits of each evaluated token, row by row.
struct Evaluation {
    std::vector<float> logits;
    std::vector<Token> decoded;
};

// Arbitrary tokens, the same in every run.
std::vector<Token> tokens_of_length(size_t n, uint32_t n_vocab);
// Evaluates the prompt and decodes a few tokens greedily.
Evaluation evaluate(OpenModel &engine, const std::vector<Token> &prompt);
// Index of the first row that differs; SIZE_MAX if there is none.
size_t first_different_row(const Evaluation &a, const Evaluation &b, size_t n_vocab);

// Options with logits for all tokens. With Residency::arena, the arena holds one token's experts.
TestOptions options_for(const std::string &model, Residency residency, uint32_t ubatch, uint32_t threads,
                        Kernels kernels = Kernels::plain);

// Expects that larder's logits equal stock's to the last bit for prompts of these lengths, and that experts were read
// and evicted.
void compare_at(const std::string &model, uint32_t ubatch, uint32_t threads, Kernels kernels = Kernels::plain,
                const std::vector<size_t> &lengths = {1, 7, 130, 512});

} // namespace larder::test

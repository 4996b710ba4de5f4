// compare.h — larder's logits beside stock llama.cpp's, in one process.
#pragma once

#include "support/model_fixture.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace larder::test {

// Logits of every evaluated token, row after row.
struct Evaluation {
    std::vector<float> logits;
    std::vector<Token> decoded;
};

// Any tokens, the same every time.
std::vector<Token> tokens_of_length(size_t n, uint32_t n_vocab);
// The prompt and a few tokens decoded greedily after it.
Evaluation evaluate(OpenModel &engine, const std::vector<Token> &prompt);
// SIZE_MAX: none.
size_t first_different_row(const Evaluation &a, const Evaluation &b, size_t n_vocab);

// Logits of all tokens wanted; for Residency::arena with an arena of one token's experts.
TestOptions options_for(const std::string &model, Residency residency, uint32_t ubatch, uint32_t threads,
                        Kernels kernels = Kernels::plain);

// Expects larder's logits to be stock's to the last bit for prompts of these lengths, and that experts were read and
// evicted meanwhile.
void compare_at(const std::string &model, uint32_t ubatch, uint32_t threads, Kernels kernels = Kernels::plain,
                const std::vector<size_t> &lengths = {1, 7, 130, 512});

} // namespace larder::test

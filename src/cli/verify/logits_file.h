// logits_file.h — a file with the token and the logits of each position. One process of verify writes it; another one
// follows its tokens and compares, where the logits need not be bit-identical. A position is an int32 token and n_vocab
// floats.
#pragma once

#include "session/open_model.h"

#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace larder {

class LogitsWriter {
  public:
    explicit LogitsWriter(const std::string &path); // empty: write nothing
    void append(Token token, std::span<const float> logits);

  private:
    std::ofstream file_;
};

class LogitsReference {
  public:
    explicit LogitsReference(const std::string &path); // empty: no reference

    // The token of the next position; empty at the end.
    std::optional<Token> next_token();
    // The error of the next position's logits against these: the largest difference, divided by the largest reference
    // logit. A missing position, or one with another token, has the maximum error.
    float error_of(Token token, std::span<const float> logits);

  private:
    std::ifstream file_;
    std::optional<Token> token_; // read in advance
    std::vector<float> logits_;
};

} // namespace larder

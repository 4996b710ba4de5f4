// logits_file.h — tokens and logits of every position in a file that one process of verify writes and another follows,
// where logits cannot be equal to the bit: a position is an int32 token and n_vocab floats.
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
    explicit LogitsWriter(const std::string &path); // empty: writes nothing
    void append(Token token, std::span<const float> logits);

  private:
    std::ofstream file_;
};

class LogitsReference {
  public:
    explicit LogitsReference(const std::string &path); // empty: there is none

    // Of the next position, if there is one.
    std::optional<Token> next_token();
    // How far the next position's logits are from these: the farthest, as a part of the largest. A position that is not
    // there, or is another token's, is as far as can be.
    float error_of(Token token, std::span<const float> logits);

  private:
    std::ifstream file_;
    std::optional<Token> token_; // read ahead
    std::vector<float> logits_;
};

} // namespace larder

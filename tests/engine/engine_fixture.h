// engine_fixture.h — a small model in a folder of its own, engines on it, and what tests of them compare.
#pragma once

#include "engine/engine.h"
#include "support/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace larder::test {

inline SamplingOptions greedy() {
    SamplingOptions sampling;
    sampling.temperature = 0;
    return sampling;
}

// Any tokens will do, if they are the same every time.
inline std::vector<Token> some_tokens(size_t n, uint32_t n_vocab) {
    std::vector<Token> tokens(n);
    uint64_t state = 1;
    for (Token &token : tokens) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        token = static_cast<Token>((state >> 33) % n_vocab);
    }
    return tokens;
}

inline std::vector<float> logits_of(const Session &session) {
    const std::span<const float> row = session.logits();
    return {row.begin(), row.end()};
}

inline bool same_bits(const std::vector<float> &a, const std::vector<float> &b) {
    return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline Token highest(const std::vector<float> &logits) {
    return static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
}

// The kind and text of the error that `call` ends with; fails the test if it ends without.
template <typename Call> Error error_of(const Call &call) {
    try {
        call();
    } catch (const Error &error) {
        return error;
    }
    ADD_FAILURE() << "no error";
    return {ErrorKind::usage, ""};
}

// One model for all tests of a suite: writing it takes longer than most of them.
class SmallModel {
  public:
    explicit SmallModel(const std::string &arguments) : path_(make_model(scratch_, "model.gguf", arguments)) {}
    [[nodiscard]] const std::string &path() const { return path_; }

    // One token a ubatch, so that no comparison depends on how a prompt was cut.
    [[nodiscard]] EngineOptions options() const {
        EngineOptions options;
        options.model_path = path_;
        options.ctx_tokens = 256; // llama.cpp's contexts are multiples of it
        options.batch_tokens = 8;
        options.ubatch_tokens = 1;
        options.threads = 1;
        return options;
    }
    [[nodiscard]] std::unique_ptr<Engine> open() const { return Engine::open(options()); }

  private:
    Scratch scratch_;
    std::string path_;
};

inline const SmallModel &attention_model() {
    static const SmallModel model("--arch qwen3moe --quant q4_k_m --layers 3 --experts 16 --top-k 3");
    return model;
}
inline const SmallModel &recurrent_model() {
    static const SmallModel model("--arch qwen35moe --quant q4_k_m");
    return model;
}

} // namespace larder::test

// model_fixture.h — small models in folders of their own, opened with any residency, and helpers to compare results.
#pragma once

#include "lab/residency/residency.h"
#include "session/session.h"
#include "support/scratch.h"
#include "support/some_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace larder::test {

struct TestOptions : OpenOptions {
    Residency residency = Residency::arena;
    PagerOptions pager;
};
inline std::unique_ptr<OpenModel> open_as(const TestOptions &options) {
    return open_with(options.residency, options, options.pager);
}

inline SamplingOptions greedy() {
    SamplingOptions sampling;
    sampling.temperature = 0;
    return sampling;
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

// The error that `call` throws; fails the test if it throws none.
template <typename Call> Error error_of(const Call &call) {
    try {
        call();
    } catch (const Error &error) {
        return error;
    }
    ADD_FAILURE() << "no error";
    return {ErrorKind::usage, ""};
}

// One model for all tests of a suite, because writing it takes longer than most tests.
class SmallModel {
  public:
    explicit SmallModel(const std::string &arguments) : path_(make_model(scratch_, "model.gguf", arguments)) {}
    [[nodiscard]] const std::string &path() const { return path_; }

    // One token per ubatch, so that no comparison depends on how a prompt is divided.
    [[nodiscard]] TestOptions options() const {
        TestOptions options;
        options.model.path = path_;
        options.model.context.ctx_tokens = 256; // llama.cpp's contexts are multiples of 256
        options.model.context.batch_tokens = 8;
        options.model.context.ubatch_tokens = 1;
        options.model.context.threads = 1;
        options.model.kernels = Kernels::plain;
        return options;
    }
    [[nodiscard]] std::unique_ptr<OpenModel> open() const { return open_as(options()); }
    // For the expected logits.
    [[nodiscard]] std::unique_ptr<OpenModel> open_stock() const {
        TestOptions stock = options();
        stock.residency = Residency::stock;
        return open_as(stock);
    }

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

// run.h — one test of `larder bench` in this process: what it evaluates and measures.
#pragma once

#include "session/session.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace larder {

struct BenchTest {
    uint32_t n_prompt = 0;
    uint32_t n_gen = 0;
    uint32_t depth = 0;                     // tokens in the context before the measured ones
    [[nodiscard]] std::string name() const; // "pp512", "tg128 @ d1024", "pp512+tg128"
    [[nodiscard]] uint32_t n_token() const { return n_prompt + n_gen; }
};

// The source of tokens that the model has not chosen: a text, read part by part and again from its beginning, or random
// numbers.
struct BenchInput {
    std::string text; // empty: random
    uint64_t seed = 0;
    bool go_on = false; // if a test has no prompt, each repetition continues the answer of the previous one
};

// All sums cover the measured tokens only.
struct Repetition {
    uint64_t n_token = 0;
    double wall_ms = 0; // time inside llama_decode(), without sampling
    double stall_ms = 0;
    uint64_t expert_hits = 0;
    uint64_t expert_misses = 0;
    uint64_t bytes_read = 0;    // by the store; without a store, read from storage by the process
    uint64_t bytes_dropped = 0; // bytes_dropped and the next figure are of residency page
    uint64_t bytes_reread = 0;
    std::optional<double> cpu_ms_token; // T_cpu, see docs/bench.md; absent if it cannot be measured
    bool token_repeated = false;        // T_cpu was measured on tokens decoded twice

    // Operators for the sums. T_cpu does not change.
    Repetition &operator+=(const Repetition &part);
    Repetition &operator-=(const Repetition &part);
};

class BenchRun {
  public:
    BenchRun(OpenModel &model, const BenchTest &test, const BenchInput &input);
    // `number` selects the tokens.
    Repetition repeat(uint64_t number);

  private:
    [[nodiscard]] std::vector<Token> tokens_of(uint64_t number, uint32_t n) const;
    void begin(uint64_t number);
    void generate(Repetition &result);
    // Decodes the latest token once more. Returns false if the model cannot remove it.
    bool decode_again(Token token, Repetition &excluded, std::vector<double> &times_ms);

    OpenModel &model_;
    const BenchTest test_;
    const BenchInput input_;
    const bool in_arena_;
    std::vector<Token> text_;
    std::unique_ptr<Session> session_;
    std::vector<Token> content_; // of the session, before the measured tokens
};

} // namespace larder

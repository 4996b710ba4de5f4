// run.h — one test of `larder bench` in this process: what it evaluates, and what is measured meanwhile.
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
    uint32_t depth = 0;                     // tokens in the context before, not measured
    [[nodiscard]] std::string name() const; // "pp512", "tg128 @ d1024", "pp512+tg128"
    [[nodiscard]] uint32_t n_token() const { return n_prompt + n_gen; }
};

// Where tokens come from that no model has chosen: a text, read piece by piece and from its beginning again, or numbers
// drawn at random.
struct BenchInput {
    std::string text; // empty: random
    uint64_t seed = 0;
    bool go_on = false; // repetitions that only generate after a text continue the answer of the one before
};

// All sums are of the measured tokens alone.
struct Repetition {
    uint64_t n_token = 0;
    double wall_ms = 0; // inside llama_decode; sampling is not counted
    double stall_ms = 0;
    uint64_t expert_hits = 0;
    uint64_t expert_misses = 0;
    uint64_t bytes_read = 0;    // by the store; without one, by the process from storage
    uint64_t bytes_dropped = 0; // by residency page, as is the next
    uint64_t bytes_reread = 0;
    std::optional<double> cpu_ms_token; // T_cpu, see docs/bench.md; absent where nothing tells
    bool token_repeated = false;        // T_cpu comes from tokens decoded again

    // Of the sums; T_cpu is left as it is.
    Repetition &operator+=(const Repetition &part);
    Repetition &operator-=(const Repetition &part);
};

class BenchRun {
  public:
    BenchRun(OpenModel &model, const BenchTest &test, const BenchInput &input);
    // `number` decides which tokens are taken.
    Repetition repeat(uint64_t number);

  private:
    [[nodiscard]] std::vector<Token> tokens_of(uint64_t number, uint32_t n) const;
    void begin(uint64_t number);
    void generate(Repetition &result);
    // Decodes the latest token once more. False if the model cannot.
    bool decode_again(Token token, Repetition &excluded, std::vector<double> &times_ms);

    OpenModel &model_;
    const BenchTest test_;
    const BenchInput input_;
    const bool in_arena_;
    std::vector<Token> text_;
    std::unique_ptr<Session> session_;
    std::vector<Token> content_; // of the session before what is measured
};

} // namespace larder

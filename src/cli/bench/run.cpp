#include "cli/bench/run.h"

#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder {

namespace {

// Tokens that are decoded twice per repetition: enough for a median, and a small part of the time.
constexpr uint32_t repeated_tokens_max = 16;

uint64_t mixed(uint64_t value) { // SplitMix64
    value += 0x9e3779b97f4a7c15ULL;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

SamplingOptions greedy() {
    SamplingOptions sampling;
    sampling.temperature = 0;
    sampling.ignore_eos = true;
    return sampling;
}

// The difference of two sets of figures.
Repetition between(const RunFigures &before, const RunFigures &after, bool in_arena) {
    Repetition part;
    part.n_token = after.prompt_tokens - before.prompt_tokens + after.decode_tokens - before.decode_tokens;
    part.wall_ms = after.prompt_ms - before.prompt_ms + after.decode_ms - before.decode_ms;
    part.stall_ms = static_cast<double>(after.store.stall_us - before.store.stall_us) / 1000;
    part.expert_hits = after.store.expert_hits - before.store.expert_hits;
    part.expert_misses = after.store.expert_misses - before.store.expert_misses;
    part.bytes_read = in_arena ? after.store.bytes_read - before.store.bytes_read
                               : after.memory.read_bytes - before.memory.read_bytes;
    part.bytes_dropped = after.bytes_dropped - before.bytes_dropped;
    part.bytes_reread = after.bytes_reread - before.bytes_reread;
    return part;
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

} // namespace

Repetition &Repetition::operator+=(const Repetition &part) {
    n_token += part.n_token;
    wall_ms += part.wall_ms;
    stall_ms += part.stall_ms;
    expert_hits += part.expert_hits;
    expert_misses += part.expert_misses;
    bytes_read += part.bytes_read;
    bytes_dropped += part.bytes_dropped;
    bytes_reread += part.bytes_reread;
    return *this;
}

Repetition &Repetition::operator-=(const Repetition &part) {
    n_token -= part.n_token;
    wall_ms -= part.wall_ms;
    stall_ms -= part.stall_ms;
    expert_hits -= part.expert_hits;
    expert_misses -= part.expert_misses;
    bytes_read -= part.bytes_read;
    bytes_dropped -= part.bytes_dropped;
    bytes_reread -= part.bytes_reread;
    return *this;
}

std::string BenchTest::name() const {
    std::string name = n_prompt > 0 ? fmt::format("pp{}", n_prompt) : "";
    if (n_gen > 0) {
        name += fmt::format("{}tg{}", name.empty() ? "" : "+", n_gen);
    }
    return depth > 0 ? fmt::format("{} @ d{}", name, depth) : name;
}

BenchRun::BenchRun(OpenModel &model, const BenchTest &test, const BenchInput &input)
    : model_(model), test_(test), input_(input), in_arena_(model.residency() == "arena") {
    if (!input.text.empty()) {
        text_ = model.tokenize({input.text, {}});
    }
}

std::vector<Token> BenchRun::tokens_of(uint64_t number, uint32_t n) const {
    std::vector<Token> tokens(n);
    for (uint64_t i = 0; i < n; i++) {
        tokens[i] = text_.empty() ? static_cast<Token>(mixed(mixed(input_.seed + number) + i) % model_.n_vocab())
                                  : text_[(number * n + i) % text_.size()];
    }
    return tokens;
}

// Fills the session with the tokens before the measured ones. content_ holds these tokens and the measured prompt.
void BenchRun::begin(uint64_t number) {
    session_.reset(); // only one session may exist at a time
    session_ = std::make_unique<Session>(model_, greedy());
    const bool only_generates = test_.n_prompt == 0;
    if (only_generates && test_.depth == 0 && !text_.empty()) {
        content_ = text_;
    } else {
        const uint32_t n_before = only_generates ? std::max(test_.depth, 1U) : test_.depth;
        content_ = tokens_of(number, n_before + test_.n_prompt);
    }
    const size_t n_before = content_.size() - test_.n_prompt;
    if (n_before > 0) {
        session_->prefill(std::span(content_).first(n_before));
    }
}

bool BenchRun::decode_again(Token token, Repetition &excluded, std::vector<double> &times_ms) {
    if (!session_->rewind(1)) {
        return false;
    }
    const RunFigures before = model_.figures();
    session_->decode(token);
    const Repetition again = between(before, model_.figures(), in_arena_);
    if (again.expert_misses == 0) { // true, as the arena holds at least one token's experts
        times_ms.push_back(again.wall_ms);
    }
    excluded += again;
    return true;
}

void BenchRun::generate(Repetition &result) {
    const RunFigures before = model_.figures();
    const uint32_t step = std::max(1U, test_.n_gen / repeated_tokens_max);
    Repetition excluded;
    std::vector<double> times_ms;
    // A pager counts each evaluation as a token, so repeated tokens would make experts cold twice as fast.
    bool repeats = test_.n_prompt == 0 && model_.residency() != "page";
    for (uint32_t i = 1; i <= test_.n_gen; i++) {
        const Token token = session_->sample();
        session_->decode(token);
        repeats = repeats && (i % step != 0 || decode_again(token, excluded, times_ms));
    }
    result += between(before, model_.figures(), in_arena_);
    result -= excluded;
    if (!times_ms.empty()) {
        result.cpu_ms_token = median(times_ms);
        result.token_repeated = true;
    }
}

Repetition BenchRun::repeat(uint64_t number) {
    const bool goes_on = input_.go_on && !text_.empty() && test_.n_prompt == 0 && test_.depth == 0;
    if (session_ == nullptr || !goes_on) {
        begin(number);
    }
    Repetition result;
    if (test_.n_prompt > 0) {
        const RunFigures before = model_.figures();
        session_->prefill(content_);
        result += between(before, model_.figures(), in_arena_);
    }
    if (test_.n_gen > 0) {
        generate(result);
    }
    if (!result.cpu_ms_token && in_arena_) {
        result.cpu_ms_token = (result.wall_ms - result.stall_ms) / static_cast<double>(result.n_token);
    }
    return result;
}

} // namespace larder

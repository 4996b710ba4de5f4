// A session: tokens in the context, what is cached of them, the sampler.
#include "engine/engine.h"
#include "engine/engine_impl.h"
#include "engine/llama_log.h"

#include "common.h"
#include "sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace larder {

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void add_to(std::atomic<double> &sum, double value) { sum = sum.load(std::memory_order_relaxed) + value; }

struct FreeBatch {
    llama_batch batch;
    explicit FreeBatch(int32_t n) : batch(llama_batch_init(n, 0, 1)) {}
    ~FreeBatch() { llama_batch_free(batch); }
    FreeBatch(const FreeBatch &) = delete;
    FreeBatch &operator=(const FreeBatch &) = delete;
};

common_params_sampling to_common(const SamplingOptions &options) {
    common_params_sampling params;
    params.seed = options.seed;
    params.top_k = options.top_k;
    params.top_p = options.top_p;
    params.min_p = options.min_p;
    params.typ_p = options.typical_p;
    params.temp = options.temperature;
    params.penalty_last_n = options.repeat_last_n;
    params.penalty_repeat = options.repeat_penalty;
    params.penalty_present = options.presence_penalty;
    params.penalty_freq = options.frequency_penalty;
    params.ignore_eos = options.ignore_eos;
    params.no_perf = true;
    if (!options.grammar.empty()) {
        params.grammar = {COMMON_GRAMMAR_TYPE_USER, options.grammar};
    }
    return params;
}

common_sampler_ptr make_sampler(const llama_model *model, common_params_sampling &params) {
    take_llama_errors();
    std::string reason;
    try {
        if (common_sampler_ptr sampler{common_sampler_init(model, params)}) {
            return sampler;
        }
        reason = take_llama_errors();
    } catch (const std::exception &error) { // of a grammar that cannot be read
        reason = error.what();
    }
    throw Error(ErrorKind::usage, fmt::format("the sampler cannot be made: {}", reason),
                "check --grammar and the sampling flags");
}

} // namespace

class Session::Impl {
  public:
    Impl(Engine::Impl &engine, const SamplingOptions &sampling)
        : engine_(engine), params_(to_common(sampling)), batch_(static_cast<int32_t>(engine.options.batch_tokens)) {
        if (params_.ignore_eos) {
            const llama_vocab *vocab = engine_.vocab();
            for (llama_token token = 0; token < llama_vocab_n_tokens(vocab); token++) {
                if (llama_vocab_is_eog(vocab, token)) {
                    params_.logit_bias.push_back({token, -INFINITY});
                }
            }
        }
        sampler_ = make_sampler(engine_.model.get(), params_);
        drop_all();
    }
    ~Impl() { drop_all(); }
    Impl(const Impl &) = delete;
    Impl &operator=(const Impl &) = delete;

    bool prefill(std::span<const Token> tokens, const std::function<void(uint32_t, uint32_t)> &after_batch) {
        if (tokens.empty()) {
            throw Error(ErrorKind::usage, "the prompt is empty", "give some text");
        }
        if (tokens.size() > llama_n_ctx(engine_.context.get())) {
            throw Error(ErrorKind::usage,
                        fmt::format("the prompt has {} tokens, the context {}", tokens.size(),
                                    llama_n_ctx(engine_.context.get())),
                        {{RemedyKind::shorter_text, "shorten it or raise -c"}});
        }
        first_token_pending_ = true;
        generation_begin_ = Clock::now();
        keep_common_prefix(tokens);
        common_sampler_reset(sampler_.get());
        for (const Token token : tokens) {
            common_sampler_accept(sampler_.get(), token, false);
        }
        const auto n_batch = static_cast<size_t>(engine_.options.batch_tokens);
        while (cached_.size() < tokens.size()) {
            const size_t first = cached_.size();
            const size_t count = std::min(n_batch, tokens.size() - first);
            if (!evaluate(tokens.subspan(first, count), first + count == tokens.size(), TracePhase::prefill)) {
                return false;
            }
            engine_.prompt_tokens += count;
            add_to(engine_.prompt_ms, last_ms_);
            if (after_batch) {
                after_batch(static_cast<uint32_t>(first), static_cast<uint32_t>(count));
            }
        }
        return true;
    }

    bool decode(Token token) {
        if (cached_.size() >= llama_n_ctx(engine_.context.get())) {
            throw Error(ErrorKind::usage, fmt::format("the context of {} tokens is full", cached_.size()), "raise -c");
        }
        if (!evaluate({&token, 1}, true, TracePhase::decode)) {
            return false;
        }
        engine_.decode_tokens++;
        add_to(engine_.decode_ms, last_ms_);
        return true;
    }

    bool rewind(uint32_t n) {
        if (n >= cached_.size()) {
            return false;
        }
        const size_t keep = cached_.size() - n;
        // Recurrent state refuses before anything is changed.
        if (!llama_memory_seq_rm(llama_get_memory(engine_.context.get()), 0, static_cast<llama_pos>(keep), -1)) {
            return false;
        }
        cached_.resize(keep);
        return true;
    }

    Token sample() {
        const Token token = choose();
        if (first_token_pending_) {
            first_token_pending_ = false;
            engine_.ttft_ms = ms_since(generation_begin_);
        }
        return token;
    }

    [[nodiscard]] uint32_t n_token() const { return static_cast<uint32_t>(cached_.size()); }

    [[nodiscard]] std::span<const float> logits(uint32_t i) const {
        const int32_t index = engine_.options.logits_for_all ? static_cast<int32_t>(i) : -1;
        return {llama_get_logits_ith(engine_.context.get(), index),
                static_cast<size_t>(llama_vocab_n_tokens(engine_.vocab()))};
    }

  private:
    Token choose() {
        try {
            const Token token = common_sampler_sample(sampler_.get(), engine_.context.get(), -1);
            common_sampler_accept(sampler_.get(), token, true);
            return token;
        } catch (const std::exception &error) {
            throw Error(ErrorKind::usage, fmt::format("no token can come next: {}", error.what()),
                        "a grammar that has come to its end needs the end of text: leave out --ignore-eos");
        }
    }

    // One llama_decode. False if the user stopped it.
    bool evaluate(std::span<const Token> tokens, bool last_batch, TracePhase phase) {
        llama_batch &batch = batch_.batch;
        common_batch_clear(batch);
        for (size_t i = 0; i < tokens.size(); i++) {
            const bool wants_logits = engine_.options.logits_for_all || (last_batch && i + 1 == tokens.size());
            common_batch_add(batch, tokens[i], static_cast<llama_pos>(cached_.size() + i), {0}, wants_logits);
        }
        take_llama_errors();
        const auto begin = Clock::now();
        const int32_t code = llama_decode(engine_.context.get(), batch);
        drop_cold_experts(static_cast<uint32_t>(tokens.size()));
        last_ms_ = ms_since(begin);
        if (code == 0) {
            if (engine_.routes != nullptr) {
                engine_.routes->write(phase);
            }
            cached_.insert(cached_.end(), tokens.begin(), tokens.end());
            return true;
        }
        // What was computed of the batch is in the cache, recurrent state above all, and cannot be taken back.
        drop_all();
        if (engine_.routes != nullptr) {
            engine_.routes->drop();
        }
        if (std::optional<Error> failure = engine_.take_failure()) {
            throw *failure;
        }
        if (engine_.stop.load()) {
            return false;
        }
        throw Error(ErrorKind::engine,
                    fmt::format("llama.cpp could not evaluate {} tokens (code {}): {}", tokens.size(), code,
                                take_llama_errors()),
                    "raise -c, or report this");
    }

    // A part of what such an evaluation takes.
    void drop_cold_experts(uint32_t n_token) {
        if (engine_.pager == nullptr) {
            return;
        }
        try {
            engine_.pager->end_evaluation(n_token);
        } catch (const Error &) {
            drop_all();
            throw;
        }
    }

    void keep_common_prefix(std::span<const Token> tokens) {
        const auto mismatch = std::mismatch(cached_.begin(), cached_.end(), tokens.begin(), tokens.end());
        auto keep = static_cast<size_t>(mismatch.first - cached_.begin());
        keep = std::min(keep, tokens.size() - 1); // the last token's logits are wanted
        if (keep == cached_.size()) {
            return;
        }
        llama_memory_t memory = llama_get_memory(engine_.context.get());
        if (keep > 0 && llama_memory_seq_rm(memory, 0, static_cast<llama_pos>(keep), -1)) {
            cached_.resize(keep);
        } else {
            drop_all(); // recurrent state cannot be cut
        }
    }

    void drop_all() {
        llama_memory_clear(llama_get_memory(engine_.context.get()), true);
        cached_.clear();
    }

    Engine::Impl &engine_;
    common_params_sampling params_;
    common_sampler_ptr sampler_;
    FreeBatch batch_;
    std::vector<Token> cached_;
    double last_ms_ = 0;
    Clock::time_point generation_begin_;
    bool first_token_pending_ = false;
};

Session::Session(Engine &engine, const SamplingOptions &sampling)
    : impl_(std::make_unique<Impl>(*engine.impl_, sampling)) {}
Session::~Session() = default;

bool Session::prefill(std::span<const Token> tokens) { return impl_->prefill(tokens, on_batch); }
bool Session::decode(Token token) { return impl_->decode(token); }
bool Session::rewind(uint32_t n) { return impl_->rewind(n); }
Token Session::sample() { return impl_->sample(); }
uint32_t Session::n_token() const { return impl_->n_token(); }
std::span<const float> Session::logits(uint32_t i) const { return impl_->logits(i); }

} // namespace larder

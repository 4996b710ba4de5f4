#include "session/session.h"

#include "base/error.h"
#include "runtime/llama_log.h"
#include "runtime/step.h"
#include "session/open_model_impl.h"
#include "text/grammar.h"

#include "common.h"
#include "sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

namespace larder {

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void add_to(std::atomic<double> &sum, double value) { sum = sum.load(std::memory_order_relaxed) + value; }

class Batch {
  public:
    explicit Batch(uint32_t tokens) : batch_(llama_batch_init(static_cast<int32_t>(tokens), 0, 1)) {}
    ~Batch() { llama_batch_free(batch_); }
    Batch(const Batch &) = delete;
    Batch &operator=(const Batch &) = delete;
    llama_batch &get() { return batch_; }

  private:
    llama_batch batch_;
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
    const LoggedErrors logged;
    std::string reason;
    try {
        if (common_sampler_ptr sampler{common_sampler_init(model, params)}) {
            return sampler;
        }
        reason = logged.all();
    } catch (const std::exception &error) { // thrown for a grammar that cannot be parsed
        reason = error.what();
    }
    throw Error(ErrorKind::usage, fmt::format("the sampler cannot be made: {}", reason),
                "check --grammar and the sampling flags");
}

} // namespace

class Session::Impl {
  public:
    Impl(OpenModel::Impl &model, const SamplingOptions &sampling)
        : model_(model), params_(to_common(sampling)), spec_(model.host->context_spec()), batch_(spec_.batch_tokens) {
        // Each sampler allocates this many tokens, and no token is further back than the context.
        if (params_.penalty_last_n < 0 || static_cast<uint32_t>(params_.penalty_last_n) > spec_.ctx_tokens) {
            params_.penalty_last_n = static_cast<int32_t>(spec_.ctx_tokens);
        }
        if (params_.ignore_eos) {
            const llama_vocab *vocab = model_.vocab();
            for (llama_token token = 0; token < llama_vocab_n_tokens(vocab); token++) {
                if (llama_vocab_is_eog(vocab, token)) {
                    params_.logit_bias.push_back({token, -INFINITY});
                }
            }
        }
        sampler_ = make_sampler(model_.host->model(), params_);
        if (!sampling.grammar.empty()) {
            grammar_watch_.emplace(model_.vocab(), sampling.grammar);
        }
        drop_all();
    }
    ~Impl() { drop_all(); }
    Impl(const Impl &) = delete;
    Impl &operator=(const Impl &) = delete;

    bool prefill(std::span<const Token> tokens, const std::function<void(uint32_t, uint32_t)> &after_batch) {
        refuse_prompt(tokens.size());
        first_token_pending_ = true;
        generation_begin_ = Clock::now();
        keep_common_prefix(tokens);
        common_sampler_reset(sampler_.get());
        if (grammar_watch_) {
            grammar_watch_->reset();
        }
        for (const Token token : tokens) {
            common_sampler_accept(sampler_.get(), token, false);
        }
        while (cached_.size() < tokens.size()) {
            const size_t first = cached_.size();
            const size_t count = std::min<size_t>(spec_.batch_tokens, tokens.size() - first);
            const bool done = evaluate(tokens.subspan(first, count), first + count == tokens.size(), false);
            model_.prompt_tokens += cached_.size() - std::min(first, cached_.size());
            add_to(model_.prompt_ms, last_ms_);
            if (!done) {
                return false;
            }
            if (after_batch) {
                after_batch(static_cast<uint32_t>(first), static_cast<uint32_t>(count));
            }
        }
        return true;
    }

    bool decode(Token token) {
        if (cached_.size() >= llama_n_ctx(model_.context())) {
            throw Error(ErrorKind::usage, fmt::format("the context of {} tokens is full", cached_.size()), "raise -c");
        }
        if (!evaluate({&token, 1}, true, true)) {
            return false;
        }
        model_.decode_tokens++;
        add_to(model_.decode_ms, last_ms_);
        return true;
    }

    bool rewind(uint32_t n) {
        if (n >= cached_.size()) {
            return false;
        }
        const auto keep = static_cast<int32_t>(cached_.size() - n);
        if (!can_cut_sequence(model_.context(), 0, keep)) {
            return false;
        }
        cached_.resize(static_cast<size_t>(cut_sequence(model_.context(), 0, keep)));
        return true;
    }

    Token sample() {
        const Token token = choose();
        if (first_token_pending_) {
            first_token_pending_ = false;
            model_.ttft_ms = ms_since(generation_begin_);
        }
        return token;
    }

    [[nodiscard]] uint32_t n_token() const { return static_cast<uint32_t>(cached_.size()); }

    [[nodiscard]] std::span<const float> logits(uint32_t i) const {
        const int32_t index = spec_.logits_for_all ? static_cast<int32_t>(i) : -1;
        return {llama_get_logits_ith(model_.context(), index),
                static_cast<size_t>(llama_vocab_n_tokens(model_.vocab()))};
    }

  private:
    void refuse_prompt(size_t n_token) const {
        if (n_token == 0) {
            throw Error(ErrorKind::usage, "the prompt is empty", "give some text");
        }
        if (n_token > llama_n_ctx(model_.context())) {
            throw Error(ErrorKind::usage,
                        fmt::format("the prompt has {} tokens, the context {}", n_token, llama_n_ctx(model_.context())),
                        {{RemedyKind::shorter_text, "shorten it or raise -c"}});
        }
    }

    Token choose() {
        try {
            const Token token = common_sampler_sample(sampler_.get(), model_.context(), -1);
            if (grammar_watch_) {
                grammar_watch_->accept(token);
            }
            common_sampler_accept(sampler_.get(), token, true);
            return token;
        } catch (const Error &) {
            throw;
        } catch (const std::exception &error) {
            throw Error(ErrorKind::usage, fmt::format("no token can come next: {}", error.what()),
                        "a grammar that has come to its end needs the end of text: leave out --ignore-eos");
        }
    }

    // One step. Returns false if it was stopped. cached_ is correct in every case.
    bool evaluate(std::span<const Token> tokens, bool last_batch, bool decoding) {
        llama_batch &batch = batch_.get();
        common_batch_clear(batch);
        for (size_t i = 0; i < tokens.size(); i++) {
            const bool wants_logits = spec_.logits_for_all || (last_batch && i + 1 == tokens.size());
            common_batch_add(batch, tokens[i], static_cast<llama_pos>(cached_.size() + i), {0}, wants_logits);
        }
        const auto begin = Clock::now();
        const StepResult result = model_.host->context().step(batch);
        take_over(result, tokens);
        last_ms_ = ms_since(begin);
        const bool whole = result.end == StepEnd::done && !result.error;
        report_step(static_cast<uint32_t>(tokens.size()), whole, decoding);
        if (result.error) {
            throw Error(*result.error);
        }
        return whole;
    }

    // Reports to the host and the observer, and passes on their exceptions. cached_ is already updated.
    void report_step(uint32_t n_token, bool whole, bool decoding) {
        StepObserver *observer = model_.host->observer();
        try {
            model_.host->step_ended(n_token);
        } catch (const Error &) {
            if (observer != nullptr) {
                observer->step_failed();
            }
            throw;
        }
        if (observer != nullptr && whole) {
            observer->step_done(decoding);
        } else if (observer != nullptr) {
            observer->step_failed();
        }
    }

    void take_over(const StepResult &result, std::span<const Token> tokens) {
        cached_.insert(cached_.end(), tokens.begin(), tokens.end());
        for (const CutSequence &cut : result.cut) {
            cached_.resize(std::min(cached_.size(), static_cast<size_t>(cut.kept)));
        }
    }

    void keep_common_prefix(std::span<const Token> tokens) {
        const auto mismatch = std::mismatch(cached_.begin(), cached_.end(), tokens.begin(), tokens.end());
        auto keep = static_cast<size_t>(mismatch.first - cached_.begin());
        keep = std::min(keep, tokens.size() - 1); // the last token must be evaluated, for its logits
        if (keep < cached_.size()) {
            cached_.resize(static_cast<size_t>(cut_sequence(model_.context(), 0, static_cast<int32_t>(keep))));
        }
    }

    void drop_all() {
        llama_memory_clear(llama_get_memory(model_.context()), true);
        cached_.clear();
    }

    OpenModel::Impl &model_;
    common_params_sampling params_;
    const ContextSpec spec_;
    common_sampler_ptr sampler_;
    std::optional<GrammarWatch> grammar_watch_;
    Batch batch_;
    std::vector<Token> cached_;
    double last_ms_ = 0;
    Clock::time_point generation_begin_;
    bool first_token_pending_ = false;
};

Session::Session(OpenModel &model, const SamplingOptions &sampling)
    : impl_(std::make_unique<Impl>(*model.impl_, sampling)) {}
Session::~Session() = default;

bool Session::prefill(std::span<const Token> tokens) { return impl_->prefill(tokens, on_batch); }
bool Session::decode(Token token) { return impl_->decode(token); }
bool Session::rewind(uint32_t n) { return impl_->rewind(n); }
Token Session::sample() { return impl_->sample(); }
uint32_t Session::n_token() const { return impl_->n_token(); }
std::span<const float> Session::logits(uint32_t i) const { return impl_->logits(i); }

} // namespace larder

#include "runtime/step.h"

#include "base/check.h"
#include "runtime/attached_context.h"
#include "runtime/llama_log.h"
#include "runtime/loaded_model.h"

#include "llama.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace larder {

namespace {

constexpr int32_t code_aborted = 2; // return value of llama_decode()
constexpr int32_t code_full = 1;

bool has_recurrent_state(const llama_model *model) {
    return llama_model_is_recurrent(model) || llama_model_is_hybrid(model);
}

int32_t length_of(llama_memory_t memory, int32_t sequence) { return llama_memory_seq_pos_max(memory, sequence) + 1; }

int32_t empty_sequence(llama_memory_t memory, int32_t sequence) {
    llama_memory_seq_rm(memory, sequence, -1, -1);
    return 0;
}

Error refused_by_llama(int32_t code, int32_t n_token, const LoggedErrors &logged) {
    if (code == code_full) {
        return {ErrorKind::usage, fmt::format("the context has no room for {} more tokens", n_token), "raise -c"};
    }
    return {ErrorKind::engine,
            fmt::format("llama.cpp could not evaluate {} tokens (code {}): {}", n_token, code, logged.all()),
            "report this with the model's name and the flags"};
}

} // namespace

bool can_cut_sequence(const llama_context *context, int32_t sequence, int32_t keep) {
    const llama_model *model = llama_get_model(context);
    llama_memory_t memory = llama_get_memory(context);
    if (length_of(memory, sequence) <= keep) {
        return true;
    }
    // The kept positions need the sliding windows before them.
    const int32_t oldest_needed = std::max(0, keep - llama_model_n_swa(model));
    return !has_recurrent_state(model) && llama_memory_seq_pos_min(memory, sequence) <= oldest_needed;
}

int32_t cut_sequence(llama_context *context, int32_t sequence, int32_t keep) {
    llama_memory_t memory = llama_get_memory(context);
    const int32_t length = length_of(memory, sequence);
    if (length <= keep) {
        return length;
    }
    const bool can = keep > 0 && can_cut_sequence(context, sequence, keep);
    return can && llama_memory_seq_rm(memory, sequence, keep, -1) ? keep : empty_sequence(memory, sequence);
}

AttachedContext::Impl::Impl(LoadedModel::Impl *model, llama_context *context, ContextHandle owned)
    : model_(model), context_(context), owned_(std::move(owned)) {
    llama_set_abort_callback(context_, abort_requested, this);
}

AttachedContext::Impl::~Impl() {
    if (owned_ == nullptr) {
        llama_set_abort_callback(context_, nullptr, nullptr);
    }
}

bool AttachedContext::Impl::abort_requested(void *self) {
    const auto *context = static_cast<const Impl *>(self);
    return context->stop_.load(std::memory_order_relaxed) ||
           (context->model_ != nullptr && context->model_->abort_requested());
}

void AttachedContext::Impl::request_stop() {
    stop_.store(true);
    if (model_ != nullptr) {
        model_->stop_changed(*this);
    }
}

// Removes the invalid positions of the affected sequences. Returns what each of these sequences kept.
std::vector<CutSequence> AttachedContext::Impl::take_back(bool report_all) {
    llama_memory_t memory = llama_get_memory(context_);
    std::vector<CutSequence> cut;
    if (memory == nullptr) {
        return cut; // a model without a cache
    }
    const bool recurrent = has_recurrent_state(llama_get_model(context_));
    for (size_t i = 0; i < UnreadTokens::sequences_max; i++) {
        const auto sequence = static_cast<int32_t>(i);
        if (unread_.spoiled(i)) {
            cut.push_back({sequence, recurrent ? empty_sequence(memory, sequence)
                                               : cut_sequence(context_, sequence, unread_.first_spoiled(i))});
        } else if (report_all && unread_.stepped().test(i)) {
            cut.push_back({sequence, length_of(memory, sequence)});
        }
    }
    return cut;
}

StepResult AttachedContext::Impl::step(const llama_batch &batch) {
    if (model_ == nullptr) {
        return evaluate(batch);
    }
    model_->begin_step(*this, unread_);
    StepResult result = evaluate(batch);
    model_->end_step();
    return result;
}

StepResult AttachedContext::Impl::evaluate(const llama_batch &batch) {
    StepResult result;
    unread_.begin(batch);
    const LoggedErrors logged;
    int32_t code = 0;
    {
        const UbatchScope scope(unread_);
        code = llama_decode(context_, batch);
    }
    result.error = model_ != nullptr ? model_->take_error() : std::nullopt;
    if (model_ != nullptr && !result.error) {
        result.error = model_->changed_file();
        if (result.error) {
            unread_.spoil_step();
        }
    }
    if (code != 0) {
        unread_.spoil_ubatch();
    }
    // An operation that a stop ended reports its tokens as unread. If it was the last operation of the graph, llama.cpp
    // does not return "aborted".
    const bool stopped = stop_.load() && (code == code_aborted || (code == 0 && unread_.any()));
    if (!result.error && stopped) {
        result.end = StepEnd::stopped;
    } else if (!result.error && code != 0) {
        result.error = refused_by_llama(code, batch.n_tokens, logged);
    }
    if (result.error && (code != 0 || unread_.all())) {
        result.end = StepEnd::failed;
    }
    if (code != 0 || unread_.any()) {
        result.cut = take_back(code != 0 || stopped);
    }
    return result;
}

AttachedContext::AttachedContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AttachedContext::~AttachedContext() = default;
llama_context *AttachedContext::get() const { return impl_->get(); }
StepResult AttachedContext::step(const llama_batch &batch) { return impl_->step(batch); }
void AttachedContext::request_stop() { impl_->request_stop(); }
void AttachedContext::clear_stop() { impl_->clear_stop(); }
bool AttachedContext::stop_requested() const { return impl_->stop_requested(); }

std::unique_ptr<AttachedContext> own_context(ContextHandle context) {
    llama_context *borrowed = context.get();
    return std::make_unique<AttachedContext>(
        std::make_unique<AttachedContext::Impl>(nullptr, borrowed, std::move(context)));
}

} // namespace larder

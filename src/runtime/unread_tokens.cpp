#include "runtime/unread_tokens.h"

#include "base/check.h"

#include "llama-batch.h"
#include "llama-graph.h"
#include "llama.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace larder {

namespace {

thread_local UnreadTokens *noting = nullptr;

} // namespace

void UnreadTokens::begin(const llama_batch &batch) {
    static_assert(sequences_max >= LLAMA_MAX_SEQ);
    ubatch_ = nullptr;
    stepped_.reset();
    begun_.reset();
    noted_.reset();
    spoiled_.reset();
    first_of_step_.fill(std::numeric_limits<int32_t>::max());
    first_spoiled_.fill(std::numeric_limits<int32_t>::max());
    for (int32_t i = 0; i < batch.n_tokens; i++) {
        const int32_t n_seq = batch.seq_id != nullptr ? batch.n_seq_id[i] : 1;
        for (int32_t s = 0; s < n_seq; s++) {
            const llama_seq_id sequence = batch.seq_id != nullptr ? batch.seq_id[i][s] : 0;
            // llama.cpp refuses other sequence ids.
            if (sequence >= 0 && static_cast<size_t>(sequence) < sequences_max) {
                stepped_.set(static_cast<size_t>(sequence));
            }
        }
    }
}

void UnreadTokens::note(const llama_ubatch *ubatch) noexcept {
    ubatch_ = ubatch;
    noted_.reset();
    if (ubatch == nullptr) {
        return;
    }
    first_of_ubatch_.fill(std::numeric_limits<int32_t>::max());
    for (uint32_t token = 0; token < ubatch->n_tokens; token++) {
        for (int32_t s = 0; s < ubatch->n_seq_id[token]; s++) {
            const auto sequence = static_cast<size_t>(ubatch->seq_id[token][s]);
            noted_.set(sequence);
            first_of_ubatch_[sequence] = std::min(first_of_ubatch_[sequence], ubatch->pos[token]);
            first_of_step_[sequence] = std::min(first_of_step_[sequence], ubatch->pos[token]);
        }
    }
    begun_ |= noted_;
}

void UnreadTokens::spoil(uint32_t token) noexcept {
    for (int32_t s = 0; s < ubatch_->n_seq_id[token]; s++) {
        const auto sequence = static_cast<size_t>(ubatch_->seq_id[token][s]);
        spoiled_.set(sequence);
        first_spoiled_[sequence] = std::min(first_spoiled_[sequence], ubatch_->pos[token]);
    }
}

void UnreadTokens::spoil_from(const Positions &first, const std::bitset<sequences_max> &sequences) noexcept {
    for (size_t sequence = 0; sequence < sequences_max; sequence++) {
        if (sequences.test(sequence)) {
            spoiled_.set(sequence);
            first_spoiled_[sequence] = std::min(first_spoiled_[sequence], first[sequence]);
        }
    }
}

void UnreadTokens::spoil_ubatch() noexcept { spoil_from(first_of_ubatch_, noted_); }
void UnreadTokens::spoil_step() noexcept { spoil_from(first_of_step_, begun_); }

// After the last attention, only the tokens whose logits are needed continue, in the order of the ubatch.
bool UnreadTokens::unread(std::span<const int32_t> tokens, int64_t n_token) noexcept {
    if (ubatch_ == nullptr) { // a graph without tokens has no experts
        return false;
    }
    const auto wanted =
        std::count_if(ubatch_->output, ubatch_->output + ubatch_->n_tokens, [](int8_t output) { return output != 0; });
    if (n_token == ubatch_->n_tokens) {
        for (const int32_t token : tokens) {
            spoil(static_cast<uint32_t>(token));
        }
    } else if (n_token == wanted) {
        size_t next = 0;
        int32_t place = 0;
        for (uint32_t token = 0; token < ubatch_->n_tokens && next < tokens.size(); token++) {
            if (ubatch_->output[token] != 0 && place++ == tokens[next]) {
                spoil(token);
                next++;
            }
        }
    } else { // a graph with another order of tokens
        spoil_ubatch();
    }
    return all();
}

UbatchScope::UbatchScope(UnreadTokens &tokens) : outer_(std::exchange(noting, &tokens)) {}

UbatchScope::~UbatchScope() {
    noting->end();
    noting = outer_;
}

} // namespace larder

// --wrap: the linker redirects calls of the original function to __wrap_…, and makes the original available as
// __real_…. Both take the arguments of the member function, `this` first.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void __real__ZN16llm_graph_result10set_inputsEPK12llama_ubatch(llm_graph_result *self, const llama_ubatch *ubatch);
void __wrap__ZN16llm_graph_result10set_inputsEPK12llama_ubatch(llm_graph_result *self, const llama_ubatch *ubatch) {
    if (larder::noting != nullptr) {
        larder::noting->note(ubatch);
    }
    __real__ZN16llm_graph_result10set_inputsEPK12llama_ubatch(self, ubatch);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
}

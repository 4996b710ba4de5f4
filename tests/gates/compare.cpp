#include "gates/compare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace larder::test {

namespace {

constexpr uint32_t n_decode = 6;

} // namespace

std::vector<Token> tokens_of_length(size_t n, uint32_t n_vocab) {
    std::vector<Token> tokens(n);
    uint64_t state = 1; // arbitrary numbers, the same in every run
    for (Token &token : tokens) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        token = static_cast<Token>((state >> 33) % n_vocab);
    }
    return tokens;
}

Evaluation evaluate(OpenModel &engine, const std::vector<Token> &prompt) {
    Evaluation evaluation;
    SamplingOptions greedy;
    greedy.temperature = 0;
    Session session(engine, greedy);
    const auto keep = [&](uint32_t i) {
        const std::span<const float> row = session.logits(i);
        evaluation.logits.insert(evaluation.logits.end(), row.begin(), row.end());
        return static_cast<Token>(std::max_element(row.begin(), row.end()) - row.begin());
    };
    Token next = 0;
    session.on_batch = [&](uint32_t /*first*/, uint32_t count) {
        for (uint32_t i = 0; i < count; i++) {
            next = keep(i);
        }
    };
    EXPECT_TRUE(session.prefill(prompt));
    for (uint32_t n = 0; n < n_decode; n++) {
        evaluation.decoded.push_back(next);
        EXPECT_TRUE(session.decode(next));
        next = keep(0);
    }
    return evaluation;
}

size_t first_different_row(const Evaluation &a, const Evaluation &b, size_t n_vocab) {
    for (size_t i = 0; i + n_vocab <= a.logits.size(); i += n_vocab) {
        if (std::memcmp(&a.logits[i], &b.logits[i], n_vocab * sizeof(float)) != 0) {
            return i / n_vocab;
        }
    }
    return SIZE_MAX;
}

TestOptions options_for(const std::string &model, Residency residency, uint32_t ubatch, uint32_t threads,
                        Kernels kernels) {
    TestOptions options;
    options.model.path = model;
    options.residency = residency;
    options.model.kernels = kernels;
    options.model.context.ctx_tokens = 768;
    options.model.context.ubatch_tokens = ubatch;
    options.model.context.threads = threads;
    options.model.context.logits_for_all = true;
    if (residency == Residency::arena) { // the smallest arena: one token's experts
        uint64_t floor_bytes = 0;
        for (const SizeClass &size_class : open_layout(model).size_classes) {
            floor_bytes += size_class.n_slices_per_token * size_class.slot_bytes;
        }
        options.runtime.plan.arena_bytes = floor_bytes;
    }
    return options;
}

void compare_at(const std::string &model, uint32_t ubatch, uint32_t threads, Kernels kernels,
                const std::vector<size_t> &lengths) {
    SCOPED_TRACE(fmt::format("ubatch {} threads {} kernels {}", ubatch, threads, to_string(kernels)));
    const auto stock = open_as(options_for(model, Residency::stock, ubatch, threads, kernels));
    const auto larder = open_as(options_for(model, Residency::arena, ubatch, threads, kernels));
    ASSERT_EQ(larder->plan().arena_bytes, larder->plan().floor_bytes);
    ASSERT_LT(larder->plan().arena_bytes, larder->layout().routed_bytes / 2);
    for (const size_t length : lengths) {
        SCOPED_TRACE(fmt::format("prompt of {} tokens", length));
        const StoreStats before = larder->figures().store;
        const std::vector<Token> prompt = tokens_of_length(length, larder->n_vocab());
        const Evaluation theirs = evaluate(*stock, prompt);
        const Evaluation ours = evaluate(*larder, prompt);
        ASSERT_EQ(theirs.logits.size(), (length + n_decode) * larder->n_vocab());
        ASSERT_EQ(ours.decoded, theirs.decoded);
        ASSERT_EQ(first_different_row(theirs, ours, larder->n_vocab()), SIZE_MAX);
        const StoreStats after = larder->figures().store;
        EXPECT_GT(after.expert_misses, before.expert_misses);
        EXPECT_GT(after.evictions, before.evictions);
        EXPECT_GT(after.bytes_read, before.bytes_read);
    }
}

} // namespace larder::test

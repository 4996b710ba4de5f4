// The figures of an engine, against the known model and the kernel's counts.
#include "base/bytes.h"
#include "support/model_fixture.h"

#include <nlohmann/json.hpp>

namespace larder::test {
namespace {

// The smallest arena, so that experts are read and evicted all the time.
TestOptions with_smallest_arena(const SmallModel &model) {
    TestOptions options = model.options();
    uint64_t floor_bytes = 0;
    for (const SizeClass &size_class : open_layout(model.path()).size_classes) {
        floor_bytes += size_class.n_slices_per_token * size_class.slot_bytes;
    }
    options.runtime.plan.arena_bytes = floor_bytes;
    return options;
}

uint64_t accesses(const StoreStats &stats) { return stats.expert_hits + stats.expert_misses; }

TEST(Stats, CountLayersTimesTopKAccessesForEachTokenThatIsEvaluatedAlone) {
    for (const SmallModel *model : {&attention_model(), &recurrent_model()}) {
        TestOptions options = with_smallest_arena(*model);
        options.model.context.logits_for_all = true; // a token without logits skips the experts of the last layer
        const auto engine = open_as(options);
        const uint64_t per_token = uint64_t{engine->layout().n_layer} * engine->layout().n_expert_used;
        Session session(*engine, greedy());
        ASSERT_TRUE(session.prefill(some_tokens(5, engine->n_vocab())));
        EXPECT_EQ(accesses(engine->figures().store), 5 * per_token);
        for (uint64_t n = 1; n <= 4; n++) {
            ASSERT_TRUE(session.decode(session.sample()));
            EXPECT_EQ(accesses(engine->figures().store), (5 + n) * per_token);
        }
    }
}

TEST(Stats, CountEachDistinctExpertOfAUbatchOnce) {
    TestOptions options = attention_model().options();
    options.model.context.batch_tokens = 32;
    options.model.context.ubatch_tokens = 32;
    const auto engine = open_as(options);
    const ModelLayout &layout = engine->layout();
    Session session(*engine, greedy());
    ASSERT_TRUE(session.prefill(some_tokens(32, engine->n_vocab())));
    const StoreStats stats = engine->figures().store;
    EXPECT_GE(accesses(stats), uint64_t{layout.n_layer} * layout.n_expert_used);
    EXPECT_LE(accesses(stats), uint64_t{layout.n_layer} * layout.n_expert);
    EXPECT_EQ(stats.expert_hits, 0U) << "nothing was there before";
    EXPECT_EQ(stats.slice_reads, 3 * accesses(stats)) << "gate, up and down, each once";
}

TEST(Stats, AgreeWithEachOther) {
    const auto engine = open_as(with_smallest_arena(attention_model()));
    Session session(*engine, greedy());
    ASSERT_TRUE(session.prefill(some_tokens(20, engine->n_vocab())));
    for (int i = 0; i < 20; i++) {
        ASSERT_TRUE(session.decode(session.sample()));
    }
    const RunFigures stats = engine->figures();
    EXPECT_EQ(stats.prompt_tokens, 20U);
    EXPECT_EQ(stats.decode_tokens, 20U);
    EXPECT_GT(stats.prompt_ms, 0);
    EXPECT_GT(stats.decode_ms, 0);
    EXPECT_GT(stats.load_ms, 0);
    EXPECT_GT(stats.ttft_ms, 0);
    EXPECT_GT(stats.store.expert_misses, 0U);
    EXPECT_GE(stats.store.slice_reads, stats.store.expert_misses) << "a miss reads at least one slice";
    EXPECT_GT(stats.store.evictions, 0U);
    EXPECT_LE(stats.store.evictions, stats.store.slice_reads);
    EXPECT_EQ(stats.store.read_errors, 0U);
    EXPECT_EQ(stats.store.arena_bytes, engine->plan().arena_bytes);
    uint64_t slice_bytes_min = UINT64_MAX;
    for (const SizeClass &size_class : engine->layout().size_classes) {
        slice_bytes_min = std::min(slice_bytes_min, size_class.slice_bytes);
    }
    EXPECT_GE(stats.store.bytes_read, stats.store.slice_reads * slice_bytes_min);
}

TEST(Stats, OfTheFileAreThoseOfTheEngine) {
    const auto engine = attention_model().open();
    Session session(*engine, greedy());
    ASSERT_TRUE(session.prefill(some_tokens(3, engine->n_vocab())));
    const RunFigures stats = engine->figures();
    const auto json = stats_json(*engine);
    EXPECT_EQ(json.at("model"), attention_model().path());
    EXPECT_EQ(json.at("prompt_tokens"), 3);
    EXPECT_EQ(json.at("expert_hits"), stats.store.expert_hits);
    EXPECT_EQ(json.at("expert_misses"), stats.store.expert_misses);
    EXPECT_EQ(json.at("bytes_read"), stats.store.bytes_read);
    ASSERT_EQ(json.at("slots").size(), engine->plan().slots.size());
    for (size_t i = 0; i < engine->plan().slots.size(); i++) {
        EXPECT_EQ(json.at("slots").at(i).at("slots"), engine->plan().slots[i]);
        EXPECT_EQ(json.at("slots").at(i).at("slots_in_use"), engine->plan().slots[i]);
        EXPECT_EQ(json.at("slots").at(i).at("slice_bytes"), engine->layout().size_classes[i].slice_bytes);
    }
    EXPECT_EQ(json.at("arena_in_use_bytes"), engine->plan().arena_bytes) << "without pressure";
    EXPECT_EQ(json.at("arena_shrinks"), 0);
    EXPECT_EQ(json.at("arena_regrows"), 0);
    EXPECT_EQ(json.at("given_back_bytes"), 0);
    EXPECT_EQ(json.at("last_resize"), "");
    EXPECT_GT(json.at("sampled_peak_rss_bytes"), 0);
    EXPECT_LE(json.at("sampled_peak_rss_bytes"), json.at("peak_rss_bytes"));
    EXPECT_EQ(json.at("ctx_tokens"), engine->ctx_tokens());
    EXPECT_DOUBLE_EQ(json.at("hit_rate"),
                     static_cast<double>(stats.store.expert_hits) / static_cast<double>(accesses(stats.store)));
    EXPECT_EQ(stats_line(*engine).find('\n'), std::string::npos);
}

// --- planned memory against the kernel's figures ---

TEST(Plan, CoversWhatTheProcessHoldsAfterOpeningAndAfterRunning) {
    for (const SmallModel *model : {&attention_model(), &recurrent_model()}) {
        TestOptions options = model->options();
        options.model.context.ctx_tokens = 2048;
        options.model.context.batch_tokens = 256;
        options.model.context.ubatch_tokens = 256;
        options.runtime.plan.budget_bytes = 400 * MiB;
        options.runtime.plan.overcommit = true;
        const auto engine = open_as(options);
        const MemoryPlan &plan = engine->plan();
        EXPECT_EQ(plan.budget_bytes, 400 * MiB);
        const uint64_t planned = plan.fixed.resident + plan.fixed.kv + plan.fixed.compute + plan.fixed.overhead;
        EXPECT_LE(engine->figures().memory.rss_bytes, planned) << "before any expert was read";
        EXPECT_LE(planned + plan.arena_bytes + plan.reserve_bytes, plan.budget_bytes);

        Session session(*engine, greedy());
        ASSERT_TRUE(session.prefill(some_tokens(1000, engine->n_vocab())));
        EXPECT_LE(engine->figures().memory.rss_bytes, planned + plan.arena_bytes);
        EXPECT_EQ(engine->figures().memory.vm_swap_bytes, 0U);
    }
}

TEST(Plan, CountsTheResidentWeightsToTheByte) {
    const auto engine = attention_model().open();
    const ModelLayout &layout = engine->layout();
    EXPECT_GE(engine->plan().fixed.resident, layout.resident_bytes);
    EXPECT_LE(engine->plan().fixed.resident, layout.resident_bytes + layout.tensors.size() * 64) << "but for alignment";
}

TEST(Plan, RefusesABudgetBelowTheFloorBeforeItReadsAnyWeight) {
    TestOptions options = attention_model().options();
    options.runtime.plan.budget_bytes = 1 * MiB;
    bool began = false;
    options.runtime.progress = [&](uint64_t /*done*/, uint64_t /*total*/) { began = true; };
    EXPECT_EQ(error_of([&] { open_as(options); }).kind(), ErrorKind::budget);
    EXPECT_FALSE(began);
}

} // namespace
} // namespace larder::test

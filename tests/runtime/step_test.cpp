// Steps of several sequences: a failed read affects only the sequences that needed it.
#include "runtime/step.h"

#include "base/bytes.h"
#include "layout/layout.h"
#include "support/greedy_walk.h"
#include "support/model_fixture.h"
#include "support/read_faults.h"

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

namespace larder::test {
namespace {

constexpr uint32_t n_sequence = 4;
constexpr uint32_t n_prompt = 6;

// A context of several sequences on a model whose arena holds one token's experts.
class Steps : public testing::Test {
  public:
    ~Steps() override { read_faults().clear(); }

    static TestOptions options(const SmallModel &model, Residency residency) {
        TestOptions options = model.options();
        options.residency = residency;
        options.model.context.sequences = n_sequence;
        options.model.context.batch_tokens = 64;
        options.model.context.ubatch_tokens = 64;
        options.runtime.plan.arena_bytes = floor_bytes(open_layout(model.path()));
        return options;
    }

    // One step with the tokens of all sequences at these positions.
    static StepResult step(AttachedContext &context, int32_t first, int32_t count) {
        const std::vector<llama_token> tokens = some_tokens(n_sequence * 100, 200);
        llama_batch batch = llama_batch_init(static_cast<int32_t>(n_sequence) * count, 0, 1);
        for (uint32_t s = 0; s < n_sequence; s++) {
            for (int32_t i = 0; i < count; i++) {
                common_batch_add(batch, tokens[s * 100 + static_cast<uint32_t>(first + i)], first + i,
                                 {static_cast<llama_seq_id>(s)}, i + 1 == count);
            }
        }
        StepResult result = context.step(batch);
        llama_batch_free(batch);
        return result;
    }
    // Logits of the last token of each sequence in such a step.
    static std::vector<std::vector<float>> logits_of_step(const OpenModel &model, int32_t count) {
        std::vector<std::vector<float>> all;
        for (uint32_t s = 0; s < n_sequence; s++) {
            const float *logits =
                llama_get_logits_ith(model.host().context().get(), static_cast<int32_t>(s + 1) * count - 1);
            all.emplace_back(logits, logits + model.n_vocab());
        }
        return all;
    }
    static std::vector<std::vector<float>> stock_logits(const SmallModel &model) {
        const std::unique_ptr<OpenModel> stock = open_as(options(model, Residency::stock));
        EXPECT_EQ(step(stock->host().context(), 0, n_prompt).end, StepEnd::done);
        return logits_of_step(*stock, n_prompt);
    }
    static int32_t length(const OpenModel &model, uint32_t sequence) {
        return llama_memory_seq_pos_max(llama_get_memory(model.host().context().get()),
                                        static_cast<llama_seq_id>(sequence)) +
               1;
    }
};

// Makes the n-th read of the step fail, for each n. Sequences that are not cut have the bits of stock.
void expect_only_spoiled_sequences_differ(const SmallModel &model, bool recurrent) {
    const auto expected = Steps::stock_logits(model);
    uint64_t partly = 0; // number of steps in which some sequences were cut and others not
    uint64_t n_read = UINT64_MAX;
    for (uint64_t n = 0; n < n_read; n += 3) {
        SCOPED_TRACE(n);
        read_faults().clear();
        const std::unique_ptr<OpenModel> larder = open_as(Steps::options(model, Residency::arena));
        const uint64_t before = read_faults().seen;
        read_faults().fails = [n, before](const ReadRequest & /*request*/, uint64_t i) { return i == before + n; };
        const StepResult result = Steps::step(larder->host().context(), 0, n_prompt);
        n_read = read_faults().seen - before;
        if (read_faults().failed == 0) {
            EXPECT_EQ(result.end, StepEnd::done); // there was no n-th read: the number of reads ahead varies
            continue;
        }
        if (!result.error) { // read ahead, and evicted before its use
            EXPECT_TRUE(result.cut.empty());
            continue;
        }
        EXPECT_EQ(result.error->kind(), ErrorKind::io);
        ASSERT_FALSE(result.cut.empty());
        std::set<int32_t> cut;
        for (const CutSequence &each : result.cut) {
            cut.insert(each.sequence);
            EXPECT_LT(each.kept, static_cast<int32_t>(n_prompt));
            EXPECT_EQ(Steps::length(*larder, static_cast<uint32_t>(each.sequence)), each.kept);
            EXPECT_TRUE(!recurrent || each.kept == 0);
        }
        if (cut.size() == n_sequence) {
            continue;
        }
        partly++;
        EXPECT_EQ(result.end, StepEnd::done);
        const auto logits = Steps::logits_of_step(*larder, n_prompt);
        for (uint32_t s = 0; s < n_sequence; s++) {
            if (!cut.contains(static_cast<int32_t>(s))) {
                EXPECT_TRUE(same_bits(logits[s], expected[s])) << "sequence " << s;
                EXPECT_EQ(Steps::length(*larder, s), static_cast<int32_t>(n_prompt));
            }
        }
    }
    EXPECT_GT(partly, 0U) << "nothing was tested";
}

TEST_F(Steps, SpoilOnlySequencesWhoseExpertsCannotBeReadWhereAttentionRemembers) {
    expect_only_spoiled_sequences_differ(attention_model(), false);
}

TEST_F(Steps, SpoilOnlySequencesWhoseExpertsCannotBeReadWhereTheModelIsRecurrent) {
    expect_only_spoiled_sequences_differ(recurrent_model(), true);
}

TEST_F(Steps, GoOnAfterAFailureWithTheBitsOfAStepThatNeverFailed) {
    const auto expected = stock_logits(attention_model());
    const std::unique_ptr<OpenModel> larder = open_as(options(attention_model(), Residency::arena));
    read_faults().fails = [](const ReadRequest & /*request*/, uint64_t /*i*/) { return true; };
    const StepResult failed = step(larder->host().context(), 0, n_prompt);
    EXPECT_EQ(failed.end, StepEnd::failed);
    EXPECT_EQ(failed.cut.size(), n_sequence);
    for (uint32_t s = 0; s < n_sequence; s++) {
        EXPECT_EQ(length(*larder, s), 0);
    }
    read_faults().clear();
    EXPECT_EQ(step(larder->host().context(), 0, n_prompt).end, StepEnd::done);
    const auto logits = logits_of_step(*larder, n_prompt);
    for (uint32_t s = 0; s < n_sequence; s++) {
        EXPECT_TRUE(same_bits(logits[s], expected[s])) << "sequence " << s;
    }
}

TEST_F(Steps, ThatAreStoppedKeepTheUbatchesThatWereDoneWhereAttentionRemembers) {
    TestOptions stopped = options(attention_model(), Residency::arena);
    stopped.model.context.ubatch_tokens = 8;
    const std::unique_ptr<OpenModel> larder = open_as(stopped);
    AttachedContext &context = larder->host().context();
    const uint64_t before = read_faults().seen;
    uint64_t reads_of_first_ubatch = 0;
    std::atomic<bool> stop{false};
    // Stops from another thread, as a user does: the store holds its lock while it submits reads.
    std::thread stopper([&] {
        stop.wait(false);
        context.request_stop();
    });
    read_faults().fails = [&](const ReadRequest & /*request*/, uint64_t i) {
        if (i - before > reads_of_first_ubatch && reads_of_first_ubatch > 0) {
            stop = true;
            stop.notify_one();
            while (!context.stop_requested()) {
                std::this_thread::yield();
            }
        }
        return false;
    };
    llama_batch batch = llama_batch_init(64, 0, 1);
    const std::vector<llama_token> tokens = some_tokens(64, 200);
    for (int32_t i = 0; i < 8; i++) {
        common_batch_add(batch, tokens[static_cast<size_t>(i)], i, {0}, false);
    }
    EXPECT_EQ(context.step(batch).end, StepEnd::done);
    reads_of_first_ubatch = read_faults().seen - before;
    for (int32_t i = 8; i < 64; i++) {
        common_batch_add(batch, tokens[static_cast<size_t>(i)], i, {0}, i == 63);
    }
    llama_memory_clear(llama_get_memory(context.get()), true);
    const StepResult result = context.step(batch); // most experts of the first ubatch are cached
    stop = true;                                   // also if there was no read
    stop.notify_one();
    stopper.join();
    llama_batch_free(batch);
    EXPECT_EQ(result.end, StepEnd::stopped);
    EXPECT_FALSE(result.error);
    ASSERT_EQ(result.cut.size(), 1U);
    EXPECT_EQ(result.cut.front().kept % 8, 0);
    EXPECT_LT(result.cut.front().kept, 64);
    EXPECT_EQ(length(*larder, 0), result.cut.front().kept);
    EXPECT_TRUE(context.stop_requested());
}

} // namespace
} // namespace larder::test

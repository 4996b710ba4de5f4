// Planned, measured and charged memory: budgets down to the smallest, short and long contexts, one sequence and four.
// Each run is in a cgroup whose limit is the budget, without swap.
#include "base/bytes.h"
#include "support/cgroup.h"
#include "support/process.h"
#include "support/scratch.h"
#include "text/text_process.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace larder::test {
namespace {

// A large model with few bytes per token, so that the test is fast: 330 MiB, two of 96 experts per token.
constexpr const char *shape = "--arch qwen3moe --quant q4_0 --layers 2 --experts 96 --top-k 2 --embd 512 --ff 2048 "
                              "--heads 8 --kv-heads 2 --vocab 2048 --ctx 8192";
constexpr uint32_t n_predict = 500; // if the context is long enough

struct Case {
    int part;         // the budget as a fraction of the model: 2 half, 4 a quarter; 0: the smallest possible budget
    uint32_t context; // tokens
    uint32_t sequences;
};

std::ostream &operator<<(std::ostream &out, const Case &c) {
    out << (c.part == 0 ? "floor" : "1/" + std::to_string(c.part)) << ", context " << c.context << ", " << c.sequences
        << " sequences";
    return out;
}

class BudgetMatrix : public testing::TestWithParam<Case> {
  protected:
    static void SetUpTestSuite() {
        scratch_ = std::make_unique<Scratch>();
        model_ = make_model(*scratch_, "m.gguf", shape);
    }
    static void TearDownTestSuite() { scratch_.reset(); }

    static std::vector<std::string> with_memory(std::vector<std::string> arguments, uint64_t budget) {
        const Case &c = GetParam();
        arguments.insert(arguments.end(), {"-m", model_, "--ram", std::to_string(budget), "-c",
                                           std::to_string(c.context), "-np", std::to_string(c.sequences)});
        return arguments;
    }

    static uint64_t budget() {
        if (GetParam().part > 0) {
            return std::filesystem::file_size(model_) / static_cast<uint64_t>(GetParam().part);
        }
        const Finished refused = larder(with_memory({"plan", "-o", "json"}, 24 * MiB));
        EXPECT_EQ(refused.exit_code, 3) << refused.err;
        return nlohmann::json::parse(refused.out).at("smallest_budget_bytes");
    }

    static std::unique_ptr<Scratch> scratch_;
    static std::string model_;
};

std::unique_ptr<Scratch> BudgetMatrix::scratch_;
std::string BudgetMatrix::model_;

TEST_P(BudgetMatrix, IsKeptAndPlannedWithinTwoPercent) {
    const uint64_t limit = budget();
    const Cgroup cgroup(limit);
    if (!cgroup.made()) {
        GTEST_SKIP() << cgroup.why();
    }
    // Only a full ubatch and a full context touch all planned memory.
    const uint32_t n_gen = GetParam().context > 2 * n_predict ? n_predict : 8;
    const uint32_t n_prompt = GetParam().context - n_gen;
    std::string prompt; // nearly every letter is one token, and together they use all experts
    for (uint32_t i = 1; i < n_prompt; i++) {
        prompt += static_cast<char>('!' + i * i % 97 % 94);
    }
    std::ofstream(*scratch_ / "prompt.txt") << prompt;

    const Finished result =
        larder(with_memory({"run", "-f", *scratch_ / "prompt.txt", "--raw", "-n", std::to_string(n_gen), "--ignore-eos",
                            "--temp", "0", "-t", "2", "--stats", *scratch_ / "stats.json"},
                           limit),
               cgroup.procs());

    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(cgroup.kills(), 0U);
    EXPECT_LE(cgroup.peak_bytes(), limit);
    const auto stats = nlohmann::json::parse(contents(*scratch_ / "stats.json"));
    EXPECT_GE(stats.at("prompt_tokens"), n_prompt - n_prompt / 20) << "the prompt does not fill the context";
    EXPECT_EQ(stats.at("decode_tokens"), n_gen - 1);
    EXPECT_EQ(stats.at("vm_swap_bytes"), 0);
    EXPECT_LE(stats.at("peak_rss_bytes"), limit);
    // With a small budget, the kernel's own memory for the process may exceed the part of the reserve meant for it.
    // Then some slots are given back.
    const bool small = limit < 64 * MiB;
    const auto given_back = stats.at("given_back_bytes").get<double>();
    EXPECT_LE(stats.at("arena_shrinks"), small ? 1 : 0) << result.err;
    // Two runs of one plan differ by up to a MiB: code pages, and memory kept by allocators.
    const auto planned = stats.at("planned_bytes").get<double>();
    const auto peak = stats.at("peak_rss_bytes").get<double>();
    EXPECT_LE(peak, planned + planned / 50 + MiB) << stats.dump(2);
    // The plan counts the text process, which is a process of its own.
    EXPECT_GE(peak, planned - text_process_bytes - given_back - planned / 50 - (small ? 2 : 1) * MiB) << stats.dump(2);
}

INSTANTIATE_TEST_SUITE_P(All, BudgetMatrix,
                         testing::Values(Case{2, 512, 1}, Case{4, 512, 1}, Case{0, 512, 1}, Case{2, 8192, 1},
                                         Case{4, 8192, 1}, Case{0, 8192, 1}, Case{2, 512, 4}, Case{4, 512, 4},
                                         Case{0, 512, 4}, Case{2, 8192, 4}, Case{4, 8192, 4}, Case{0, 8192, 4}));

} // namespace
} // namespace larder::test

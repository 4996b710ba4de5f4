// The memory promise, proven by the kernel: a model three times the budget runs in a cgroup whose limit is the budget,
// swap off, and is neither killed nor bigger than it said.
#include "base/bytes.h"
#include "support/cgroup.h"
#include "support/process.h"
#include "support/scratch.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace larder::test {
namespace {

constexpr uint64_t budget = 200 * MiB;

TEST(MemoryBudget, AModelOfThreeTimesTheBudgetRunsInACgroupOfTheBudget) {
    const Cgroup cgroup(budget);
    if (!cgroup.made()) {
        GTEST_SKIP() << cgroup.why();
    }
    const Scratch scratch;
    const std::string model = make_model(scratch, "big.gguf", LARDER_MODEL_OF_600_MB);
    ASSERT_GT(std::filesystem::file_size(model), 3 * budget);
    std::string prompt;
    while (prompt.size() < 4000) {
        prompt += "the quick brown fox jumps over the lazy dog and ";
    }
    std::ofstream(scratch / "prompt.txt") << prompt;

    const Finished result =
        larder({"run", "-m", model, "--ram", std::to_string(budget), "-f", scratch / "prompt.txt", "--raw", "-n", "65",
                "--ignore-eos", "--temp", "0", "-t", "2", "-c", "2048", "--stats", scratch / "stats.json"},
               cgroup.procs());

    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(cgroup.kills(), 0U);
    EXPECT_LE(cgroup.peak_bytes(), budget);
    const auto stats = nlohmann::json::parse(contents(scratch / "stats.json"));
    EXPECT_GE(stats.at("prompt_tokens"), 512);
    EXPECT_EQ(stats.at("decode_tokens"), 64);
    EXPECT_EQ(stats.at("budget_bytes"), budget);
    EXPECT_LE(stats.at("peak_rss_bytes"), budget);
    EXPECT_EQ(stats.at("vm_swap_bytes"), 0);
    EXPECT_GT(stats.at("evictions"), 0);
    // The parts of the plan are the budget: nothing is left out of the account.
    EXPECT_LE(stats.at("resident_bytes").get<uint64_t>() + stats.at("kv_bytes").get<uint64_t>() +
                  stats.at("compute_bytes").get<uint64_t>() + stats.at("overhead_bytes").get<uint64_t>() +
                  stats.at("reserve_bytes").get<uint64_t>() + stats.at("arena_bytes").get<uint64_t>(),
              budget);
}

TEST(MemoryBudget, WithoutRamTheLimitOfTheCgroupIsTheBudget) {
    const Cgroup cgroup(budget);
    if (!cgroup.made()) {
        GTEST_SKIP() << cgroup.why();
    }
    const Scratch scratch;
    const std::string model = make_model(scratch, "small.gguf", "--arch qwen3moe --quant q8_0");
    const Finished result = larder(
        {"run", "-m", model, "-p", "a", "-n", "2", "--temp", "0", "--stats", scratch / "stats.json"}, cgroup.procs());
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto stats = nlohmann::json::parse(contents(scratch / "stats.json"));
    EXPECT_LE(stats.at("budget_bytes"), budget);
    EXPECT_GT(stats.at("budget_bytes"), budget / 2);
    EXPECT_NE(stats.at("budget_source").get<std::string>().find("cgroup"), std::string::npos);
}

} // namespace
} // namespace larder::test

// The memory limit, checked by the kernel: a model of three times the budget runs in a cgroup whose limit is the
// budget, without swap. It is not killed and does not exceed its plan.
#include "base/bytes.h"
#include "base/unique_fd.h"
#include "support/cgroup.h"
#include "support/process.h"
#include "support/scratch.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <vector>

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
    // A full ubatch and a full context touch all planned memory.
    EXPECT_LT(stats.at("peak_rss_bytes"), stats.at("planned_bytes"));
    EXPECT_GT(stats.at("evictions"), 0);
    EXPECT_EQ(stats.at("arena_shrinks"), 0) << "the plan leaves what the watcher wants\n" << result.err;
    // The parts of the plan add up to the budget.
    EXPECT_LE(stats.at("resident_bytes").get<uint64_t>() + stats.at("kv_bytes").get<uint64_t>() +
                  stats.at("compute_bytes").get<uint64_t>() + stats.at("overhead_bytes").get<uint64_t>() +
                  stats.at("reserve_bytes").get<uint64_t>() + stats.at("arena_bytes").get<uint64_t>(),
              budget);
}

// Bytes of a file in the page cache.
uint64_t cached_bytes(const std::string &path) {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const uint64_t size = std::filesystem::file_size(path);
    void *pages = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
    EXPECT_NE(pages, MAP_FAILED);
    std::vector<unsigned char> resident((size + 4095) / 4096);
    EXPECT_EQ(mincore(pages, size, resident.data()), 0);
    munmap(pages, size);
    return 4096 * static_cast<uint64_t>(std::count_if(resident.begin(), resident.end(),
                                                      [](unsigned char page) { return (page & 1U) != 0; }));
}

void drop_from_page_cache(const std::string &path) {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    fsync(fd.get());
    posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
}

TEST(PageCache, HoldsNoMoreThanTheHeaderOfTheModelAfterARunAndNothingOfItIsMapped) {
    const Scratch scratch;
    const std::string model = make_model(scratch, "m.gguf", "--arch qwen3moe --quant q8_0");
    drop_from_page_cache(model);
    ASSERT_EQ(cached_bytes(model), 0U);
    Process chat({LARDER_PROGRAM, "run", "-m", model, "--arena", "4M", "-n", "8", "--temp", "0", "--stats",
                  scratch / "stats.json"});
    chat.type("hello\n");
    ASSERT_TRUE(chat.wait_for_output_lines(1));
    EXPECT_EQ(contents("/proc/" + std::to_string(chat.pid()) + "/maps").find(model), std::string::npos);
    ASSERT_EQ(chat.wait().exit_code, 0);
    const auto stats = nlohmann::json::parse(contents(scratch / "stats.json"));
    if (!stats.at("direct_io").get<bool>()) {
        GTEST_SKIP() << "the file system refuses direct I/O";
    }
    EXPECT_GT(stats.at("bytes_read").get<uint64_t>(), 8 * MiB);
    EXPECT_LT(cached_bytes(model), 2 * MiB); // the header, and the kernel's read-ahead after it
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

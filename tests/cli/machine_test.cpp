// How larder run adapts to the processors, the memory and the settings of the system.
#include "base/bytes.h"
#include "machine/cpus.h"
#include "machine/memory_lock.h"
#include "machine/proc_files.h"
#include "support/process.h"
#include "support/scratch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace larder::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class OnThisMachine : public testing::Test {
  protected:
    static const std::string &model() {
        static const Scratch scratch;
        static const std::string path = make_model(scratch, "m.gguf", "--arch qwen3moe --quant q4_k_m");
        return path;
    }
    std::vector<std::string> run_arguments() const {
        return {"run", "-m",     model(), "--ram",   "200M",
                "-c",  "256",    "-p",    "a",       "-n",
                "1",   "--temp", "0",     "--stats", scratch_ / "s.json"};
    }
    [[nodiscard]] int threads() const {
        return nlohmann::json::parse(contents(scratch_ / "s.json")).at("threads").get<int>();
    }
    Scratch scratch_;
};

// A cgroup with a CPU quota of one processor. Supports only v1 with the CPU controller mounted on its own.
class CpuQuota {
  public:
    CpuQuota() : path_(fmt::format("/sys/fs/cgroup/cpu/larder-test-{}", ::getpid())) {
        std::error_code error;
        if (std::filesystem::create_directory(path_, error)) {
            std::ofstream(path_ / "cpu.cfs_period_us") << 100'000;
            std::ofstream quota(path_ / "cpu.cfs_quota_us");
            quota << 150'000 << std::flush;
            made_ = quota.good();
        }
    }
    ~CpuQuota() {
        std::error_code error;
        std::filesystem::remove(path_, error);
    }
    CpuQuota(const CpuQuota &) = delete;
    CpuQuota &operator=(const CpuQuota &) = delete;
    [[nodiscard]] bool made() const { return made_; }
    [[nodiscard]] std::string procs() const { return (path_ / "cgroup.procs").string(); }
    [[nodiscard]] std::string name() const { return fmt::format("/{}", path_.filename().string()); }

  private:
    std::filesystem::path path_;
    bool made_ = false;
};

TEST_F(OnThisMachine, AnAffinityMaskLowersTheThreads) {
    if (usable_cpus().usable_cores < 2) {
        GTEST_SKIP() << "there is one core only";
    }
    const uint32_t first = parse_list(KeyedFile("/proc/self/status").value("Cpus_allowed_list")).at(0);
    std::vector<std::string> bound = {"/usr/bin/env", "taskset", "-c", std::to_string(first), LARDER_PROGRAM};
    std::vector<std::string> arguments = run_arguments();
    bound.insert(bound.end(), arguments.begin(), arguments.end());
    const Finished result = run(bound);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(threads(), 1);
    EXPECT_THAT(result.err, HasSubstr("threads: 1 (CPU affinity)\n"));

    const Finished planned = run(
        {"/usr/bin/env", "taskset", "-c", std::to_string(first), LARDER_PROGRAM, "plan", "-m", model(), "-c", "256"});
    EXPECT_THAT(planned.out, HasSubstr("threads: 1 (CPU affinity)\n"));

    bound.insert(bound.end(), {"-t", "2"}); // no explanation for a value that the user chose
    const Finished named = run(bound);
    ASSERT_EQ(named.exit_code, 0) << named.err;
    EXPECT_EQ(threads(), 2);
    EXPECT_THAT(named.err, Not(HasSubstr("threads: ")));
}

TEST_F(OnThisMachine, ACpuQuotaLowersTheThreads) {
    const CpuQuota quota;
    if (!quota.made() || usable_cpus().usable_cores < 2) {
        GTEST_SKIP() << "no CPU controller of cgroup v1 that may be written, or one core only";
    }
    const Finished result = larder(run_arguments(), quota.procs());
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(threads(), 1) << "of a processor and a half";
    EXPECT_THAT(result.err, HasSubstr(fmt::format("threads: 1 (CPU quota of cgroup {})\n", quota.name())));
    const Finished planned = larder({"plan", "-m", model(), "-c", "256", "-o", "json"}, quota.procs());
    const auto json = nlohmann::json::parse(planned.out);
    EXPECT_EQ(json.at("threads"), 1);
    EXPECT_EQ(json.at("threads_bound_by"), fmt::format("CPU quota of cgroup {}", quota.name()));
}

TEST_F(OnThisMachine, AllItsCoresNeedNoLine) {
    const Cpus cpus = usable_cpus();
    if (!cpus.bound_by().empty()) {
        GTEST_SKIP() << cpus.bound_by();
    }
    const Finished result = larder(run_arguments());
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(threads(), static_cast<int>(cpus.cores));
    EXPECT_THAT(result.err, Not(HasSubstr("threads: ")));
}

// The smaps lines of writable mappings without a file that have touched pages which are not locked.
std::string unlocked_memory(pid_t pid) {
    const std::string text = read_text(fmt::format("/proc/{}/smaps", pid));
    std::string found;
    std::string mapping;
    bool own = false;
    uint64_t rss = 0;
    for_each_line(text, [&](std::string_view line) {
        const std::vector<std::string_view> words = words_of(line);
        if (words.size() >= 5 && words[0].find('-') != std::string_view::npos) {
            mapping = line;
            own = words[1].starts_with("rw") && words[4] == "0";
        } else if (words[0] == "Rss:") {
            rss = to_number(words[1]).value_or(0);
        } else if (own && rss > 0 && words[0] == "VmFlags:" && line.find(" lo") == std::string_view::npos) {
            found += fmt::format("{}: {} kB\n", mapping, rss);
        }
    });
    return found;
}

TEST_F(OnThisMachine, MlockLocksWhatIsMappedAfterLoadingToo) {
    if (lock_limit()) {
        GTEST_SKIP() << "this process may not lock without limit";
    }
    Process chat(
        {LARDER_PROGRAM, "run", "-m", model(), "--ram", "200M", "-c", "1024", "-n", "8", "--temp", "0", "--mlock"});
    chat.type("once upon a time\n");
    ASSERT_TRUE(chat.wait_for_output_lines(1)); // now the work memory and the compute threads' stacks exist
    EXPECT_EQ(unlocked_memory(chat.pid()), "");
    EXPECT_EQ(chat.wait().exit_code, 0);
}

TEST_F(OnThisMachine, ThreadsSpinBrieflyUnlessTheUserSaysOtherwise) {
    const auto spins = [&](const std::string &environment) {
        Process chat({"/usr/bin/env", "-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT", environment, LARDER_PROGRAM,
                      "run", "-m", model(), "--ram", "200M", "-c", "256", "-n", "1"});
        chat.type("a\n");
        EXPECT_TRUE(chat.wait_for_output_lines(1));
        const std::string variables = contents(fmt::format("/proc/{}/environ", chat.pid()));
        EXPECT_EQ(chat.wait().exit_code, 0);
        const std::string name = "GOMP_SPINCOUNT=";
        const size_t at = variables.find(name);
        return at == std::string::npos ? std::string("none") : std::string(variables.c_str() + at + name.size());
    };
    EXPECT_EQ(spins("A=1"), "300");
    EXPECT_EQ(spins("GOMP_SPINCOUNT=77"), "77");
    EXPECT_EQ(spins("OMP_WAIT_POLICY=passive"), "none");
}

} // namespace
} // namespace larder::test

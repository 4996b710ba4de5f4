// larder tune as a user runs it, and larder run with its result. Which settings are the fastest depends on timing; the
// tests check the rest.
#include "base/bytes.h"
#include "support/cgroup.h"
#include "support/process.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace larder::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class Tune : public testing::Test {
  protected:
    Tune() {
        model_ = make_model(scratch_, "m.gguf", "--arch qwen3moe --quant q4_k_m --layers 2 --experts 16 --embd 256");
        cache_ = scratch_ / "cache";
        setenv("XDG_CACHE_HOME", cache_.c_str(), 1);
    }
    ~Tune() override { unsetenv("XDG_CACHE_HOME"); }

    // Names all settings except the threads, so there is one trial per number of threads.
    [[nodiscard]] Finished tune(std::vector<std::string> more) const {
        std::vector<std::string> arguments = {"tune", "-m", model_, "-p",    "8",  "-n", "4",
                                              "-c",   "64", "-q",   "--ram", "1G", "-o", "json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return larder(arguments);
    }
    [[nodiscard]] Finished answer(std::vector<std::string> more) const {
        std::vector<std::string> arguments = {"run", "-m", model_, "--raw", "-p", "a", "-n", "2", "--temp", "0"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return larder(arguments);
    }

    Scratch scratch_;
    std::string model_;
    std::string cache_;
};

TEST_F(Tune, KeepsWhatItFoundForRun) {
    const Finished tuned = tune({"--ubatch-size", "32", "--io-depth", "8"});
    ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
    const json result = json::parse(tuned.out);
    EXPECT_EQ(result.at("job"), "pp8+tg4");
    EXPECT_GE(result.at("trials").size(), 1U);
    EXPECT_GT(result.at("best").at("seconds"), 0);
    EXPECT_EQ(result.at("best").at("ubatch_tokens"), 32);
    EXPECT_THAT(result.at("profile").get<std::string>(), HasSubstr(cache_ + "/larder/profiles/"));

    const Finished used = answer({"--ram", "1024M", "-c", "64"});
    EXPECT_EQ(used.exit_code, 0);
    EXPECT_THAT(used.err, HasSubstr("ubatch 32")) << "1024M is 1G";
    EXPECT_THAT(used.err, HasSubstr("as larder tune found"));
    EXPECT_THAT(used.err, HasSubstr("(ubatch 32)")) << "the plan is made with it";
    EXPECT_THAT(answer({"--ram", "1G", "--no-profile"}).err, Not(HasSubstr("larder tune")));
    EXPECT_THAT(answer({"--ram", "900M"}).err, Not(HasSubstr("larder tune"))) << "another budget";
    EXPECT_THAT(answer({"--ram", "1G", "-c", "64", "-ub", "16"}).err, HasSubstr("(ubatch 16)"))
        << "what the user says comes first";
}

TEST_F(Tune, VariesWhatTheUserLeavesOpen) {
    const Finished tuned = tune({"-t", "1"});
    ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
    const json result = json::parse(tuned.out);
    std::set<int> ubatches;
    std::set<int> depths;
    std::set<uint64_t> arenas;
    for (const json &trial : result.at("trials")) {
        EXPECT_EQ(trial.at("threads"), 1);
        ubatches.insert(trial.at("ubatch_tokens").get<int>());
        depths.insert(trial.at("io_depth").get<int>());
        arenas.insert(trial.at("arena_bytes").get<uint64_t>());
    }
    EXPECT_EQ(ubatches, std::set<int>({64, 128, 256})) << "up to the context, which is rounded up";
    EXPECT_EQ(depths, std::set<int>({4, 16, 64}));
    EXPECT_EQ(arenas.size(), 3U);
}

TEST_F(Tune, AProfileThatIsNoneIsSaidAndNotUsed) {
    const json result = json::parse(tune({"-t", "1", "-ub", "32", "--io-depth", "8", "--arena", "64M"}).out);
    const std::string path = result.at("profile");
    const json good = json::parse(contents(path));
    const auto said = [&](const std::string &why) {
        const Finished used = answer({"--ram", "1G", "-q"});
        EXPECT_EQ(used.exit_code, 0) << used.err;
        EXPECT_THAT(used.err, testing::StartsWith("warning: " + path + " is not a profile of larder tune: " + why));
        EXPECT_THAT(used.err, testing::EndsWith("; remove it, or run with --no-profile\n"));
        EXPECT_EQ(std::count(used.err.begin(), used.err.end(), '\n'), 1) << used.err;
    };
    const auto said_with = [&](const char *key, const json &value, const std::string &why) {
        json bad = good;
        bad[key] = value;
        std::ofstream(path) << bad;
        said(why);
    };
    said_with("threads", "many", "its threads is not a whole number");
    said_with("threads", -1, "its threads is not a whole number");
    said_with("threads", 513, "its threads is 513, not a number from 1 to 512");
    said_with("io_depth", 0, "its io_depth is 0, not a number from 1 to 1024");
    said_with("ubatch_tokens", 0, "its ubatch_tokens is 0, not a number from 1 to");
    said_with("arena_bytes", UINT64_MAX, "its arena_bytes is 18446744073709551615, not a number from 0 to");
    said_with("arena_bytes", 1, "its arena_bytes do not hold one token's experts");
    said_with("memory_flags", "-np", "its memory_flags are not strings");
    said_with("memory_flags", {{"-np", 1}}, "its memory_flags are not strings");
    said_with("larder_profile", 1, "its version is not 2");
    for (const char *text : {"", "dear diary", "[]"}) {
        std::ofstream(path) << text;
        said("it is not a JSON object");
    }
    std::ofstream(path) << std::string(65537, '[');
    said("it is larger than 64 KiB");
    EXPECT_EQ(answer({"--ram", "1G", "-q", "--no-profile"}).err, "");

    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    said("it is not a regular file");
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    said("it is not a regular file");
}

TEST_F(Tune, AProfileOfAShorterContextGivesOnlyThreadsAndReadDepth) {
    const std::string path = json::parse(tune({"-t", "1", "-ub", "64", "--io-depth", "8"}).out).at("profile");
    json profile = json::parse(contents(path));
    profile["arena_bytes"] = 2 * MiB;
    std::ofstream(path) << profile;
    const auto used_with = [&](std::vector<std::string> more) {
        more.insert(more.end(), {"--ram", "1G"});
        const Finished used = answer(more);
        EXPECT_EQ(used.exit_code, 0) << used.err;
        return used.err;
    };
    for (const char *shorter : {"256", "48"}) {
        EXPECT_THAT(
            used_with({"-c", shorter}),
            HasSubstr("profile: threads 1, ubatch 64, arena at most 2 MiB, read depth 8, as larder tune found ("));
    }
    const std::string left_out = "profile: threads 1, read depth 8, as larder tune found; its ubatch and arena are not "
                                 "used, because they were found ";
    EXPECT_THAT(used_with({"-c", "512"}), HasSubstr(left_out + "with -c 256 ("));
    EXPECT_THAT(used_with({}), HasSubstr(left_out + "with -c 256 (")) << "the default is longer";
    EXPECT_THAT(used_with({"-c", "256", "-np", "2"}), HasSubstr(left_out + "with another -np ("));
    EXPECT_THAT(used_with({"-c", "256", "-ctk", "f32"}), HasSubstr(left_out + "with another -ctk ("));
    EXPECT_THAT(used_with({"-c", "256", "-ctv", "f32"}), HasSubstr(left_out + "with another -ctv ("));
    EXPECT_THAT(used_with({"-c", "256", "-fa", "off"}), HasSubstr(left_out + "with another -fa ("));
    EXPECT_THAT(used_with({"-c", "256", "--kernels", "plain"}), HasSubstr(left_out + "with another --kernels ("));
    EXPECT_THAT(used_with({"-c", "256", "--reserve", "8M"}), HasSubstr(left_out + "with another --reserve ("));
    EXPECT_THAT(used_with({"-c", "512", "-t", "1", "--io-depth", "4"}),
                HasSubstr("profile: its ubatch and arena are not used, because they were found with -c 256 ("));
    EXPECT_THAT(used_with({"-c", "512", "-ub", "32", "--arena", "3M"}), Not(HasSubstr("its ubatch and arena")))
        << "the user has named both";
}

// The ubatch for a short context needs more memory than the budget leaves with a long one.
TEST_F(Tune, AProfileIsNoReasonForARefusal) {
    const std::vector<std::string> small = {"--ram", "48M", "-c", "4096"};
    const Finished tuned = tune({"-t", "1", "-ub", "1024", "--io-depth", "8", "--ram", "48M", "-c", "1024"});
    ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
    std::vector<std::string> with_its_ubatch = small;
    with_its_ubatch.insert(with_its_ubatch.end(), {"--no-profile", "-ub", "1024"});
    ASSERT_EQ(answer(with_its_ubatch).exit_code, 3);

    const Finished longer = answer(small);
    EXPECT_EQ(longer.exit_code, 0) << longer.err;
    EXPECT_THAT(longer.err, HasSubstr("not used, because they were found with -c 1024"));

    // As if the profile had been made while more memory was available.
    const std::string path = json::parse(tuned.out).at("profile");
    json profile = json::parse(contents(path));
    profile["ctx_tokens"] = 4096;
    std::ofstream(path) << profile;
    const Finished again = answer(small);
    EXPECT_EQ(again.exit_code, 0) << again.err;
    EXPECT_THAT(again.err, HasSubstr("profile: not used, because its settings do not fit into the budget now\n"));
    const Finished never = answer({"--ram", "48M", "-c", "4096", "-ub", "1024"});
    EXPECT_EQ(never.exit_code, 3) << "what the user asks for is refused as without a profile";
}

TEST_F(Tune, WorksInACgroupWhoseLimitIsTheBudget) {
    const std::string model = make_model(scratch_, "q.gguf", "--arch qwen3moe --layers 8 --experts 32 --embd 512");
    const Cgroup cgroup(160 * MiB);
    if (!cgroup.made()) {
        GTEST_SKIP() << cgroup.why();
    }
    const Finished tuned = larder({"tune", "-m", model, "--ram", "160M", "-c", "64",         "-p", "8",  "-n",
                                   "4",    "-q", "-t",  "1",     "-ub",  "32", "--io-depth", "8",  "-o", "json"},
                                  cgroup.procs());
    ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
    EXPECT_GT(json::parse(tuned.out).at("best").at("seconds"), 0);
    EXPECT_EQ(cgroup.kills(), 0U);
}

TEST_F(Tune, WhatRunRefusesIsRefusedBeforeATrial) {
    const std::string line =
        std::string(LARDER_PROGRAM) + " tune -m " + model_ + " --ram 200M -c 64 -p 8 -n 4 -q --mlock";
    const Finished refused =
        run({"/bin/sh", "-c", "ulimit -l 1024 && exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock " + line});
    EXPECT_EQ(refused.exit_code, 3) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("error: --mlock: this process may lock 1 MiB"));
    EXPECT_EQ(refused.out, "");
}

TEST_F(Tune, RefusesWhatItCannotDo) {
    EXPECT_THAT(tune({"--ram", "10M"}).err, testing::StartsWith("error: a budget of 10 MiB (--ram) is too small: "));
    EXPECT_EQ(tune({"--reserve", "much"}).exit_code, 2);
    EXPECT_EQ(tune({"-c", "8"}).exit_code, 2);
    EXPECT_EQ(tune({"-p", "0", "-n", "0"}).exit_code, 2);
    EXPECT_EQ(tune({"--ram", "1M"}).exit_code, 3);
}

TEST_F(Tune, LearnsThatTheProfileCannotBeWrittenBeforeTheTrials) {
    const Finished no_folder = larder({"tune", "-m", model_, "-c", "256", "--profile", "/proc/none/p.json"});
    EXPECT_EQ(no_folder.exit_code, 1);
    EXPECT_THAT(no_folder.err, testing::StartsWith("error: --profile: cannot write /proc/none/p.json"));
    EXPECT_EQ(no_folder.out, "");
}

TEST_F(Tune, PrintsWhatItFoundWhenTheProfileCannotBeWritten) {
    const Finished tuned = tune({"-t", "1", "-ub", "32", "--io-depth", "8", "--profile", "/dev/full"});
    EXPECT_EQ(tuned.exit_code, 1);
    EXPECT_THAT(tuned.err, HasSubstr("--profile: cannot write /dev/full"));
    const json result = json::parse(tuned.out);
    EXPECT_GT(result.at("best").at("seconds"), 0);
    EXPECT_TRUE(result.at("profile").is_null());
}

// A folder that others may write to could hold another user's profile, or a link.
TEST_F(Tune, KeepsNoProfileForAUserWithoutAHome) {
    unsetenv("XDG_CACHE_HOME");
    const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
    unsetenv("HOME");
    const Finished refused = tune({"-t", "1"});
    const Finished ran = answer({"--ram", "1G"});
    setenv("HOME", home.c_str(), 1);
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(refused.err,
                HasSubstr("neither XDG_CACHE_HOME nor HOME is set; set HOME, or name a file with --profile"));
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_THAT(ran.err, Not(HasSubstr("profile")));
}

} // namespace
} // namespace larder::test

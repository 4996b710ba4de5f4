// larder tune as its user meets it, and run with what it found. What is best is the clock's; the rest is not.
#include "support/process.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
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

    // Everything but the threads is named, so that there is one trial a number of threads.
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

    const Finished used = answer({"--ram", "1024M"});
    EXPECT_EQ(used.exit_code, 0);
    EXPECT_THAT(used.err, HasSubstr("ubatch 32")) << "1024M is 1G";
    EXPECT_THAT(used.err, HasSubstr("as larder tune found"));
    EXPECT_THAT(used.err, HasSubstr("(ubatch 32)")) << "the plan is made with it";
    EXPECT_THAT(answer({"--ram", "1G", "--no-profile"}).err, Not(HasSubstr("larder tune")));
    EXPECT_THAT(answer({"--ram", "900M"}).err, Not(HasSubstr("larder tune"))) << "another budget";
    EXPECT_THAT(answer({"--ram", "1G", "-ub", "16"}).err, HasSubstr("(ubatch 16)")) << "what the user says comes first";
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
    EXPECT_EQ(ubatches, std::set<int>({64}));
    EXPECT_EQ(depths, std::set<int>({4, 16, 64}));
    EXPECT_EQ(arenas.size(), 3U);
}

TEST_F(Tune, IgnoresAProfileThatIsNone) {
    const json result = json::parse(tune({"-t", "1", "-ub", "32", "--io-depth", "8", "--arena", "64M"}).out);
    std::ofstream(result.at("profile").get<std::string>()) << "{\"larder_profile\": 1, \"threads\": \"many\"}";
    const Finished used = answer({"--ram", "1G"});
    EXPECT_EQ(used.exit_code, 0);
    EXPECT_THAT(used.err, Not(HasSubstr("larder tune")));
}

TEST_F(Tune, RefusesWhatItCannotDo) {
    EXPECT_EQ(tune({"-c", "8"}).exit_code, 2);
    EXPECT_EQ(tune({"-p", "0", "-n", "0"}).exit_code, 2);
    EXPECT_EQ(tune({"--ram", "1M"}).exit_code, 3);
    const Finished no_folder = tune({"--profile", "/proc/none/p.json", "-t", "1", "-ub", "32", "--io-depth", "8"});
    EXPECT_EQ(no_folder.exit_code, 1) << no_folder.err;
}

} // namespace
} // namespace larder::test

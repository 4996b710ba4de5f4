// larder simulate: its output, and its messages for bad input.
#include "lab/trace/trace.h"
#include "support/process.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <vector>

namespace larder::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Simulate : public testing::Test {
  protected:
    // A synthetic trace: 6 layers of 32 experts, 3 used, 60 tokens.
    std::string trace(const std::string &name, uint64_t seed = 1) {
        const RoutingTrace made = synthesise_trace(
            {.n_layer = 6, .n_expert = 32, .top_k = 3, .n_token = 60, .skew = 1.0, .reuse = 0.3, .seed = seed});
        const std::string path = scratch_ / name;
        TraceWriter writer(path, "qwen3moe", 32, 3, std::vector<uint32_t>{0, 1, 2, 3, 4, 5});
        for (const TraceToken &token : made.tokens) {
            writer.write(token);
        }
        writer.close();
        return path;
    }
    static std::string printed(const std::vector<std::string> &arguments) {
        const Finished result = larder(arguments);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        EXPECT_EQ(result.err, "");
        return result.out;
    }
    static void refused(const std::vector<std::string> &arguments, int exit_code, const std::string &text) {
        const Finished result = larder(arguments);
        EXPECT_EQ(result.exit_code, exit_code) << result.err;
        EXPECT_THAT(result.err, HasSubstr(text));
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
        EXPECT_EQ(result.out, "");
    }

    Scratch scratch_;
};

TEST_F(Simulate, PrintsATableForEachTrace) {
    const std::string out = printed({"simulate", trace("a.jsonl"), trace("b.jsonl", 2), "--slots", "10%,48"});
    for (const char *text : {"a.jsonl: 6 layers of 32 experts, 3 used, 60 tokens decoded",
                             "b.jsonl: ", "| experts cached | of all | lru | decayed | lfru | MIN |", "| 19 | 9.9 % |",
                             "| 48 | 25.0 % |"}) {
        EXPECT_THAT(out, HasSubstr(text));
    }
}

TEST_F(Simulate, JsonHasARateForEachPolicyAndNoneAboveMin) {
    const auto json = nlohmann::json::parse(printed({"simulate", trace("a.jsonl"), "-o", "json"}));
    const auto rows = json["traces"][0]["rows"];
    EXPECT_EQ(rows.size(), 8U) << "5 to 50 % without being asked";
    for (const auto &row : rows) {
        EXPECT_EQ(row["hit_rate"].size(), 4U);
        for (const auto &[policy, rate] : row["hit_rate"].items()) {
            EXPECT_LE(rate, row["hit_rate"]["MIN"]) << policy;
        }
        EXPECT_GT(row["hit_rate"]["MIN"], 0);
    }
}

TEST_F(Simulate, CsvHasALineForEachPolicyAndSize) {
    const std::string out =
        printed({"simulate", trace("a.jsonl"), "-o", "csv", "--policy", "lru", "--slots", "20,40,80"});
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1 + 2 * 3);
    EXPECT_THAT(out, HasSubstr(",40,0.2083,lru,0."));
    EXPECT_THAT(out, Not(HasSubstr("lfru")));
}

TEST_F(Simulate, DrawsTheRates) {
    const std::string svg = scratch_ / "rates.svg";
    printed({"simulate", trace("a.jsonl"), "--svg", svg});
    const std::string drawn = contents(svg);
    EXPECT_THAT(drawn, testing::StartsWith("<svg"));
    for (const char *name : {">lru<", ">decayed<", ">lfru<", ">MIN<"}) {
        EXPECT_THAT(drawn, HasSubstr(name));
    }
}

TEST_F(Simulate, SaysWhatAPrefillBetweenTwoDecodesCosts) {
    const std::string path = trace("a.jsonl");
    const auto json =
        nlohmann::json::parse(printed({"simulate", path, "-o", "json", "--slots", "25%", "--prefill-between", "64"}));
    const auto row = json["traces"][0]["rows"][0];
    EXPECT_GT(row["hit_rate_without_prefill"]["lru"], row["hit_rate"]["lru"]);
    EXPECT_THAT(printed({"simulate", path, "--slots", "25%", "--prefill-between", "64"}),
                testing::ContainsRegex("[0-9] \\(-[0-9]+\\.[0-9]\\)"));
}

// A shell starts background jobs with SIGINT ignored.
TEST_F(Simulate, EndsOnCtrlCInTheBackgroundToo) {
    const std::string pipe = scratch_ / "pipe";
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    Process process({"/bin/sh", "-c", "trap '' INT; exec " + std::string(LARDER_PROGRAM) + " simulate " + pipe});
    int writer = -1;
    for (int i = 0; i < 6000 && writer < 0; i++) { // until simulate opens the trace
        writer = open(pipe.c_str(), O_WRONLY | O_NONBLOCK);
        usleep(1000);
    }
    ASSERT_GE(writer, 0);
    process.signal(SIGINT);
    EXPECT_EQ(process.wait().exit_code, 130);
    close(writer);
}

TEST_F(Simulate, BadInputIsExplained) {
    const std::string path = trace("a.jsonl");
    refused({"simulate"}, 2, "trace");
    refused({"simulate", scratch_ / "absent.jsonl"}, 1, "absent.jsonl");
    for (const char *slots : {"0", "193", "101%", "-3", "ten", "10%,", "", "1e2", "2.5", "0.01%", "%", "nan"}) {
        refused({"simulate", path, std::string("--slots=") + slots}, 2, "--slots");
    }
    refused({"simulate", path, "--policy", "best"}, 2, "lru, decayed, lfru");
    refused({"simulate", path, "-o", "xml"}, 2, "--output");
    refused({"simulate", path, "--prefill-between", "0"}, 2, "--prefill-between");
    refused({"simulate", path, "--prefill-between", "65537"}, 2, "--prefill-between");
    refused({"simulate", path, "--prefill-between", "4", "--warm"}, 2, "--warm");
    refused({"simulate", path, "--svg", scratch_ / "no/such/folder.svg"}, 1, "folder.svg");
    std::ofstream(scratch_ / "notes.txt") << "dear diary\n";
    refused({"simulate", scratch_ / "notes.txt"}, 1, "notes.txt");
}

} // namespace
} // namespace larder::test

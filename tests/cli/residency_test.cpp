// --residency of run and bench.
#include "support/process.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace larder::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Residencies : public testing::Test {
  protected:
    static const std::string &model() {
        static const Scratch scratch;
        static const std::string path = make_model(
            scratch, "m.gguf", "--arch qwen3moe --quant q4_k_m --layers 3 --experts 16 --top-k 2 --embd 256 --ff 512");
        return path;
    }
    static std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string> &more) {
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    [[nodiscard]] std::vector<std::string> run_arguments(const std::vector<std::string> &more) const {
        return with({"run", "-m", model(), "-p", "a b c d", "-n", "30", "--temp", "0", "--ignore-eos", "-t", "1",
                     "--kernels", "plain", "--stats", scratch_ / "s.json"},
                    more);
    }
    [[nodiscard]] json stats() const { return json::parse(contents(scratch_ / "s.json")); }

    Scratch scratch_;
};

TEST_F(Residencies, GiveTheSameAnswerAndSayInTheStatsWhichTheyAre) {
    std::vector<std::string> answers;
    for (const std::string residency : {"arena", "page", "stock"}) {
        const Finished result = larder(run_arguments({"--residency", residency}));
        ASSERT_EQ(result.exit_code, 0) << result.err;
        answers.push_back(result.out);
        EXPECT_EQ(stats().at("residency"), residency);
        EXPECT_EQ(stats().contains("page"), residency == "page");
        if (residency != "arena") {
            EXPECT_THAT(result.err, HasSubstr("residency " + residency + ": no budget"));
        }
    }
    for (const std::string evict : {"both", "madvise", "fadvise", "none"}) {
        const Finished result =
            larder(run_arguments({"--residency", "page", "--page-evict", evict, "--hot-tokens", "2"}));
        ASSERT_EQ(result.exit_code, 0) << result.err;
        answers.push_back(result.out);
        const json page = stats().at("page");
        EXPECT_EQ(page.at("evict"), evict);
        EXPECT_EQ(page.at("hot_tokens"), 2);
        EXPECT_EQ(page.at("experts_dropped") > 0, evict != "none");
        EXPECT_FALSE(page.at("rss_over_time").empty());
    }
    EXPECT_GT(answers.front().size(), 30U);
    EXPECT_THAT(answers, testing::Each(answers.front()));
}

TEST_F(Residencies, RefuseFlagsThatTheyWouldNotHeed) {
    const auto refused = [&](const std::vector<std::string> &more, const std::string &text) {
        const Finished result = larder(run_arguments(more));
        EXPECT_EQ(result.exit_code, 2) << result.err;
        EXPECT_THAT(result.err, HasSubstr(text));
    };
    refused({"--residency", "page", "--kernels", "repacked"}, "comes back as zeros; use --kernels plain or mixed");
    EXPECT_THAT(larder({"run", "-m", model(), "-p", "a", "--residency", "page", "--kernels", "repacked"}).err,
                testing::StartsWith("error: "))
        << "nothing is announced that is then refused";
    refused({"--residency", "page", "--ram", "1G"}, "--ram: residency 'page' has no budget");
    refused({"--residency", "stock", "--ram", "1G"}, "--ram: residency 'stock' has no budget");
    refused({"--residency", "stock", "--arena", "1G"}, "--arena: residency 'stock' has no budget");
    refused({"--residency", "stock", "--page-evict", "none"}, "residency 'stock' drops no pages");
    refused({"--hot-tokens", "4"}, "residency 'arena' drops no pages");
    refused({"--residency", "page", "--hot-tokens", "0"}, "--hot-tokens");
    refused({"--residency", "page", "--page-evict", "all"}, "--page-evict");
    refused({"--residency", "gpu"}, "--residency");
    refused({"--residency", "stock", "--trace", scratch_ / "t"}, "does not tell its routes");
    const Finished bench = larder({"bench", "-m", model(), "--residency", "arena,stock", "--hot-tokens", "4"});
    EXPECT_EQ(bench.exit_code, 2);
    EXPECT_THAT(bench.err, HasSubstr("no row has residency 'page'"));
}

TEST_F(Residencies, AreMeasuredSideBySide) {
    const std::vector<std::string> arguments = {
        "bench", "-m", model(), "--residency", "arena,page,stock", "--ram", "200M", "-p",   "0",         "-n", "40",
        "-r",    "2",  "-t",    "1",           "--kernels",        "plain", "-o",   "json", "--no-probe"};
    const Finished result = larder(with(arguments, {"--hot-tokens", "2", "--page-evict", "madvise"}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json rows = json::parse(result.out);
    ASSERT_EQ(rows.size(), 3U);
    for (const json &row : rows) {
        EXPECT_EQ(row.at("error"), nullptr);
        EXPECT_GT(row.at("tok_s"), 0);
        EXPECT_EQ(row.at("kernels"), "plain");
        EXPECT_GT(row.at("peak_rss_bytes"), 0);
    }
    EXPECT_EQ(rows[0].at("residency"), "arena");
    EXPECT_EQ(rows[2].at("residency"), "stock");
    for (const json &row : {rows[0], rows[2]}) {
        for (const char *name : {"page_evict", "hot_tokens", "bytes_dropped_per_token", "bytes_reread_per_token"}) {
            EXPECT_EQ(row.at(name), nullptr) << name;
        }
    }
    const json &page = rows[1];
    EXPECT_EQ(page.at("residency"), "page");
    EXPECT_EQ(page.at("page_evict"), "madvise");
    EXPECT_EQ(page.at("hot_tokens"), 2);
    EXPECT_GT(page.at("bytes_dropped_per_token"), 0);
    EXPECT_GT(page.at("bytes_reread_per_token"), 0);
    EXPECT_GT(page.at("hit_rate"), 0);
    EXPECT_LT(page.at("hit_rate"), 1);
    for (const char *name : {"budget_bytes", "arena_bytes", "stall_ms_per_token", "t_cpu_ms"}) {
        EXPECT_EQ(page.at(name), nullptr) << name;
    }
}

} // namespace
} // namespace larder::test

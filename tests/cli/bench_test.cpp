// larder bench as a user runs it. The tests check only that times exist; what they check of experts and bytes does not
// depend on a clock.
#include "base/bytes.h"
#include "support/process.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <sstream>
#include <string>
#include <vector>

namespace larder::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Bench : public testing::Test {
  protected:
    static const std::string &model() {
        static const Scratch scratch;
        static const std::string path = make_model(
            scratch, "m.gguf", "--arch qwen3moe --quant q4_k_m --layers 4 --experts 32 --embd 256 --ff 1024");
        return path;
    }
    static Finished bench(const std::string &path, std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {"bench", "-m", path, "-r", "2", "-t", "1"});
        return larder(arguments);
    }
    static json rows_of(const std::string &path, std::vector<std::string> arguments, int exit_code = 0) {
        arguments.insert(arguments.end(), {"-o", "json"});
        const Finished result = bench(path, arguments);
        EXPECT_EQ(result.exit_code, exit_code) << result.err;
        return json::parse(result.out);
    }
    static std::vector<std::string> lines_of(const std::string &text) {
        std::vector<std::string> lines;
        std::istringstream stream(text);
        for (std::string line; std::getline(stream, line);) {
            lines.push_back(line);
        }
        return lines;
    }

    Scratch scratch_;
};

void expect_measured(const json &row) {
    EXPECT_EQ(row.at("error"), nullptr);
    EXPECT_EQ(row.at("repetitions"), 2);
    EXPECT_EQ(row.at("tok_s_samples").size(), 2U);
    EXPECT_GT(row.at("tok_s"), 0);
    EXPECT_GE(row.at("tok_s_stddev"), 0);
    EXPECT_GT(row.at("peak_rss_bytes"), 0);
    EXPECT_GT(row.at("disk_bytes_per_second"), 0);
    EXPECT_GE(row.at("bytes_read_per_token"), 0);
}

TEST_F(Bench, MeasuresEveryTestUnderEveryBudget) {
    const json rows = rows_of(model(), {"--ram", "70M,200M", "-p", "16", "-n", "8", "--kernels", "plain"});
    ASSERT_EQ(rows.size(), 4U);
    EXPECT_EQ(rows[0].at("test"), "pp16");
    EXPECT_EQ(rows[1].at("test"), "tg8");
    for (const json &row : rows) {
        expect_measured(row);
        EXPECT_EQ(row.at("architecture"), "qwen3moe");
        EXPECT_EQ(row.at("residency"), "arena");
        EXPECT_EQ(row.at("start"), "warm");
        EXPECT_EQ(row.at("threads"), 1);
        EXPECT_EQ(row.at("kernels"), "plain");
        EXPECT_GE(row.at("hit_rate"), 0);
        EXPECT_LE(row.at("hit_rate"), 1);
        EXPECT_GE(row.at("stall_ms_per_token"), 0);
        EXPECT_LE(row.at("peak_rss_bytes"), row.at("budget_bytes"));
        EXPECT_GT(row.at("t_cpu_ms"), 0);
        EXPECT_GE(row.at("limit_tok_s"), row.at("serial_tok_s"));
        EXPECT_DOUBLE_EQ(row.at("limit_share"), row.at("tok_s").get<double>() / row.at("limit_tok_s").get<double>());
        EXPECT_DOUBLE_EQ(row.at("t_io_ms"), row.at("bytes_read_per_token").get<double>() * 1000 /
                                                row.at("disk_bytes_per_second").get<double>());
    }
    EXPECT_EQ(rows[0].at("t_cpu_method"), "wall - stall");
    EXPECT_EQ(rows[1].at("t_cpu_method"), "token repeated");
    EXPECT_EQ(rows[0].at("budget_bytes"), 70 * MiB);
    EXPECT_LT(rows[1].at("arena_bytes"), rows[3].at("arena_bytes"));
    EXPECT_LT(rows[1].at("slots")[0], rows[3].at("slots")[0]);
    EXPECT_GT(rows[1].at("bytes_read_per_token"), rows[3].at("bytes_read_per_token"));
    EXPECT_LT(rows[1].at("hit_rate"), rows[3].at("hit_rate"));
}

TEST_F(Bench, SaysInEachRowWhichUbatchWasInUse) {
    const std::vector<std::string> arguments = {"--ram", "80M,200M", "--residency", "arena,stock", "-p",   "0", "-n",
                                                "2",     "-c",       "4096",        "--kernels",   "plain"};
    const json rows = rows_of(model(), arguments);
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_LT(rows[0].at("ubatch_tokens"), 512) << "the plan's choice for little memory";
    EXPECT_EQ(rows[1].at("ubatch_tokens"), 512) << "all experts fit";
    EXPECT_EQ(rows[2].at("ubatch_tokens"), 512) << "llama.cpp's default";
    std::vector<std::string> named = arguments;
    named.insert(named.end(), {"-ub", "48"});
    for (const json &row : rows_of(model(), named)) {
        EXPECT_EQ(row.at("ubatch_tokens"), 48);
    }
}

TEST_F(Bench, WithoutTheProbeTheDisksLimitIsNotTold) {
    const json rows = rows_of(model(), {"--ram", "200M", "-p", "0", "-n", "4", "--cold", "--no-probe"});
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_GT(rows[0].at("tok_s"), 0);
    EXPECT_GT(rows[0].at("t_cpu_ms"), 0);
    for (const char *key : {"disk_bytes_per_second", "t_io_ms", "limit_tok_s", "serial_tok_s", "limit_share"}) {
        EXPECT_EQ(rows[0].at(key), nullptr) << key;
    }
}

TEST_F(Bench, TokensThatAreDecodedAgainDoNotCount) {
    // Each of 8 tokens is decoded twice. If both evaluations counted, half of the accesses would be hits.
    const json rows = rows_of(model(), {"--ram", "200M", "-p", "0", "-n", "8", "--cold"});
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].at("t_cpu_method"), "token repeated");
    const double per_token = rows[0].at("bytes_read_per_token");
    const double needed = rows[0].at("token_bytes");
    EXPECT_LE(per_token, 1.2 * needed) << "whole windows, a little more than the slices";
    EXPECT_GT(per_token, (1 - rows[0].at("hit_rate").get<double>()) * needed * 0.99);
}

TEST_F(Bench, ColdBeginsWithAnEmptyArenaAndWarmDoesNot) {
    const json warm = rows_of(model(), {"--ram", "200M", "-p", "64", "-n", "0"});
    const json cold = rows_of(model(), {"--ram", "200M", "-p", "64", "-n", "0", "--cold"});
    expect_measured(warm[0]);
    expect_measured(cold[0]);
    EXPECT_EQ(cold[0].at("start"), "cold");
    EXPECT_EQ(cold[0].at("hit_rate"), 0.0); // the first ubatch finds nothing cached
    EXPECT_GT(warm[0].at("hit_rate"), 0.9); // the warm-up has read nearly all experts
    EXPECT_GT(cold[0].at("bytes_read_per_token"), warm[0].at("bytes_read_per_token"));
    const json counted = rows_of(model(), {"--ram", "200M", "-p", "64", "-n", "0", "--no-warmup"});
    EXPECT_GT(counted[0].at("bytes_read_per_token"), warm[0].at("bytes_read_per_token"));
}

TEST_F(Bench, MeasuresStockLlamaCppInTheSameTable) {
    const json rows = rows_of(model(), {"--ram", "200M", "--residency", "arena,stock", "-p", "16", "-n", "8"});
    ASSERT_EQ(rows.size(), 4U);
    EXPECT_EQ(rows[1].at("residency"), "arena");
    for (const json &row : {rows[2], rows[3]}) {
        expect_measured(row);
        EXPECT_EQ(row.at("residency"), "stock");
        EXPECT_EQ(row.at("io_backend"), "mmap");
        for (const char *name : {"budget_bytes", "arena_bytes", "hit_rate", "stall_ms_per_token"}) {
            EXPECT_EQ(row.at(name), nullptr) << name;
        }
    }
    EXPECT_EQ(rows[2].at("t_cpu_ms"), nullptr);
    EXPECT_GT(rows[3].at("t_cpu_ms"), 0);
}

TEST_F(Bench, ReportsARefusedBudgetAndMeasuresTheOthers) {
    const json rows = rows_of(model(), {"--ram", "10M", "--ram", "200M", "-p", "0", "-n", "4"});
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_THAT(rows[0].at("error").get<std::string>(), HasSubstr("use --ram "));
    EXPECT_EQ(rows[0].at("tok_s"), nullptr);
    EXPECT_EQ(rows[0].at("ram"), "10M");
    expect_measured(rows[1]);
    const Finished table = bench(model(), {"--ram", "10M", "-p", "4", "-n", "4"});
    EXPECT_EQ(table.exit_code, 3) << "all were refused";
    EXPECT_THAT(table.out, HasSubstr(" refused | "));
    const size_t below = table.out.find("\n10M, pp4: ");
    ASSERT_NE(below, std::string::npos) << table.out;
    EXPECT_EQ(table.out.find('|', below), std::string::npos) << "the refusal stands below the table";
    EXPECT_THAT(table.out.substr(below), HasSubstr("use --ram "));
}

TEST_F(Bench, SaysWhenAModelCannotDecodeATokenAgain) {
    const std::string recurrent = make_model(scratch_, "r.gguf", "--arch qwen35moe --quant q4_k_m");
    const json rows = rows_of(recurrent, {"-p", "0", "-n", "8"});
    expect_measured(rows[0]);
    EXPECT_EQ(rows[0].at("t_cpu_method"), "wall - stall");
    EXPECT_GT(rows[0].at("t_cpu_ms"), 0);
}

TEST_F(Bench, ReadsATextAndMeasuresDepthsAndPairs) {
    const json rows =
        rows_of(model(), {"--prompt", "once upon a time there was", "-p", "8", "-n", "4", "-d", "0,16", "-pg", "8,4"});
    ASSERT_EQ(rows.size(), 6U);
    std::vector<std::string> names;
    for (const json &row : rows) {
        expect_measured(row);
        names.push_back(row.at("test"));
    }
    EXPECT_THAT(names, testing::ElementsAre("pp8", "tg4", "pp8+tg4", "pp8 @ d16", "tg4 @ d16", "pp8+tg4 @ d16"));
    std::ofstream(scratch_ / "text.txt") << "once upon a time there was";
    expect_measured(rows_of(model(), {"-f", scratch_ / "text.txt", "-p", "0", "-n", "4"})[0]);
}

TEST_F(Bench, WritesTheSameRowsInEveryFormat) {
    const std::vector<std::string> base = {"--ram", "10M,200M", "-p", "4", "-n", "0", "-o"};
    const auto lines = [&](const std::string &format) {
        std::vector<std::string> arguments = base;
        arguments.push_back(format);
        const Finished result = bench(model(), arguments);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        return lines_of(result.out);
    };
    const std::vector<std::string> jsonl = lines("jsonl");
    ASSERT_EQ(jsonl.size(), 2U);
    expect_measured(json::parse(jsonl[1]));

    const std::vector<std::string> csv = lines("csv");
    ASSERT_EQ(csv.size(), 3U);
    EXPECT_THAT(csv[0], testing::StartsWith("model_path,model_name,"));
    EXPECT_EQ(std::count(csv[0].begin(), csv[0].end(), ','), std::count(csv[2].begin(), csv[2].end(), ','));
    EXPECT_THAT(csv[1], testing::EndsWith("or lower -c\"")); // commas inside a cell do not split it

    const std::vector<std::string> table = lines("md");
    ASSERT_GE(table.size(), 4U);
    for (size_t i = 0; i < 4; i++) {
        EXPECT_EQ(std::count(table[i].begin(), table[i].end(), '|'), 21) << table[i];
    }
    EXPECT_THAT(table[0], HasSubstr("of limit"));
    EXPECT_THAT(table[0], HasSubstr(" ubatch |"));
    EXPECT_THAT(table[3], HasSubstr(" ± "));
}

TEST_F(Bench, DrawsDecodingAgainstTheBudget) {
    const std::string svg = scratch_ / "curve.svg";
    rows_of(model(), {"--ram", "10M,70M,200M", "-p", "4", "-n", "4", "--svg", svg});
    const std::string text = contents(svg);
    EXPECT_THAT(text, testing::StartsWith("<svg "));
    EXPECT_THAT(text, HasSubstr("tokens a second"));
    EXPECT_THAT(text, HasSubstr("hit rate"));
    EXPECT_THAT(text, HasSubstr("tg4, limit"));
    EXPECT_THAT(text, testing::Not(HasSubstr("pp4")));
    const Finished refused = bench(model(), {"--svg", "/nowhere/curve.svg"});
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(refused.err, HasSubstr("--svg"));
    EXPECT_EQ(refused.out, "");
}

TEST_F(Bench, RefusesWrongUseBeforeItMeasures) {
    const auto refused = [&](const std::vector<std::string> &arguments, int exit_code, const std::string &text) {
        const Finished result = bench(model(), arguments);
        EXPECT_EQ(result.exit_code, exit_code) << result.err;
        EXPECT_THAT(result.err, HasSubstr(text));
        EXPECT_EQ(result.out, "");
    };
    refused({"--ram", "200M,many"}, 2, "--ram: 'many' is not a size");
    refused({"-p", "0", "-n", "0"}, 2, "nothing to measure");
    refused({"-pg", "8"}, 2, "-pg");
    refused({"-c", "256"}, 2, "-c: the tests need 513 tokens");
    refused({"--residency", "gpu"}, 2, "--residency");
    refused({"--cold", "--warm"}, 2, "--warm");
    refused({"-o", "xml"}, 2, "--output");
    refused({"-m", scratch_ / "absent.gguf"}, 1, "absent.gguf");
}

class LongBench : public Bench {
  protected:
    // Arguments of a run of which at least one row is done.
    static std::vector<std::string> arguments() {
        return {LARDER_PROGRAM, "bench", "-m", model(), "--ram", "200M",        "-p",         "0",  "-n",
                "1,2000",       "-r",    "30", "-t",    "1",     "--no-warmup", "--progress", "-o", "json"};
    }
    static void wait_for_second_row(Process &process) { ASSERT_TRUE(process.wait_for_error("2 of 2, 200M tg2000")); }
};

TEST_F(LongBench, EndsWithTheRowsItHasOnCtrlC) {
    Process process(arguments());
    wait_for_second_row(process);
    process.signal(SIGINT);
    const Finished result = process.wait_with_open_input();
    EXPECT_EQ(result.exit_code, 130);
    const json rows = json::parse(result.out);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].at("test"), "tg1");
}

// The test ends only when both processes have closed standard error.
TEST_F(LongBench, LeavesNoProcessBehindWhenItIsKilled) {
    Process process(arguments());
    wait_for_second_row(process);
    process.signal(SIGKILL);
    EXPECT_EQ(process.wait().exit_code, 128 + SIGKILL);
}

} // namespace
} // namespace larder::test

#include "layout/layout.h"
#include "support/process.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace larder::test {
namespace {

using testing::HasSubstr;

class Verify : public testing::Test {
  protected:
    Scratch scratch_;
};

TEST_F(Verify, WritesEvidenceForEveryBudget) {
    const std::string model = make_model(scratch_, "m.gguf", "--arch qwen3moe --quant q4_k_m");
    const Finished result =
        larder({"verify", "-m", model, "--ram", "120M,200M", "-n", "6", "--out", scratch_ / "ab-test.json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("yes, "));
    const auto json = nlohmann::json::parse(contents(scratch_ / "ab-test.json"));
    EXPECT_EQ(json.at("all_passed"), true);
    EXPECT_GT(json.at("positions"), 60);
    EXPECT_GT(json.at("stock").at("peak_rss_bytes"), 0);
    ASSERT_EQ(json.at("runs").size(), 2U);
    for (const auto &run : json.at("runs")) {
        EXPECT_EQ(run.at("equal"), true);
        EXPECT_LE(run.at("peak_rss_bytes"), run.at("budget_bytes"));
        EXPECT_EQ(run.at("vm_swap_bytes"), 0);
        EXPECT_GT(run.at("bytes_read"), 0);
        EXPECT_GT(run.at("hit_rate"), 0);
        EXPECT_TRUE(run.contains("evictions"));
    }
}

TEST_F(Verify, ComparesEachBudgetWithStockOnItsPathOfKernels) {
    const std::string model = make_model(scratch_, "m.gguf", "--arch qwen3moe --quant q4_k_m --layers 8 --experts 64");
    const Finished result = larder(
        {"verify", "-m", model, "--ram", "100M", "--ram", "400M", "-n", "4", "--out", scratch_ / "ab-test.json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto json = nlohmann::json::parse(contents(scratch_ / "ab-test.json"));
    ASSERT_EQ(json.at("stocks").size(), 2U);
    EXPECT_EQ(json.at("stocks").at(0).at("kernels"), "mixed");
    EXPECT_EQ(json.at("stocks").at(1).at("kernels"), "repacked");
    EXPECT_EQ(json.at("runs").at(0).at("kernels"), "mixed");
    EXPECT_GT(json.at("runs").at(0).at("evictions"), 0);
    EXPECT_EQ(json.at("runs").at(1).at("kernels"), "repacked");
    for (const auto &run : json.at("runs")) {
        EXPECT_EQ(run.at("equal"), true);
        EXPECT_EQ(run.at("against_kernels"), run.at("kernels"));
    }
}

// The ubatch changes the last bits of the logits. All sides use the smallest ubatch of the plans, or the one that the
// user chose.
TEST_F(Verify, ComparesAtOneUbatch) {
    const std::string model = make_model(scratch_, "m.gguf", "--arch qwen3moe --quant q4_k_m --layers 8 --experts 64");
    const std::vector<std::string> base = {"verify",
                                           "-m",
                                           model,
                                           "--ram",
                                           "82M",
                                           "--ram",
                                           "400M",
                                           "-n",
                                           "2",
                                           "--kernels",
                                           "plain",
                                           "--out",
                                           scratch_ / "ab-test.json"};
    const auto ubatch_of_all = [&](const std::vector<std::string> &arguments) {
        const Finished result = larder(arguments);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        const auto json = nlohmann::json::parse(contents(scratch_ / "ab-test.json"));
        for (const auto &run : json.at("runs")) {
            EXPECT_EQ(run.at("equal"), true);
            EXPECT_EQ(run.at("ubatch_tokens"), json.at("ubatch_tokens"));
        }
        EXPECT_EQ(json.at("runs").size(), 2U);
        EXPECT_EQ(json.at("stocks").size(), 1U);
        EXPECT_GT(json.at("positions"), 128);
        return json.at("ubatch_tokens").get<uint32_t>();
    };
    const uint32_t chosen = ubatch_of_all(base);
    EXPECT_GE(chosen, 32U);
    EXPECT_LE(chosen, 128U);
    std::vector<std::string> named = base;
    named.insert(named.end(), {"-ub", "48"});
    EXPECT_EQ(ubatch_of_all(named), 48U);
}

TEST_F(Verify, StatesTheErrorOfKernelsWithoutATwin) {
    const std::string model = make_model(scratch_, "m.gguf", "--arch qwen3moe --quant q4_k_m");
    const Finished result = larder(
        {"verify", "-m", model, "--kernels", "fast", "--ram", "200M", "-n", "4", "--out", scratch_ / "ab-test.json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("close: mean error"));
    const auto json = nlohmann::json::parse(contents(scratch_ / "ab-test.json"));
    const auto &run = json.at("runs").at(0);
    EXPECT_EQ(run.at("kernels"), "fast");
    EXPECT_EQ(run.at("against_kernels"), "repacked");
    EXPECT_FALSE(run.contains("equal"));
    EXPECT_GT(run.at("largest_error"), 0);
    EXPECT_LE(run.at("mean_error"), run.at("error_bound"));
}

TEST_F(Verify, FailsWhenKernelsWithoutATwinAreTooFarOff) {
    const std::string one = make_model(scratch_, "one.gguf", "--arch qwen3moe --quant q4_k_m --seed 1");
    const std::string two = make_model(scratch_, "two.gguf", "--arch qwen3moe --quant q4_k_m --seed 2");
    const Finished result = larder({"verify", "-m", one, "--against", two, "--kernels", "fast", "--ram", "200M", "-n",
                                    "2", "--out", scratch_ / "ab-test.json"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("farther from stock llama.cpp than rounding explains"));
    EXPECT_EQ(nlohmann::json::parse(contents(scratch_ / "ab-test.json")).at("all_passed"), false);
}

// Two models that differ only in the seed of their weights must not pass.
TEST_F(Verify, FailsWhenLogitsDiffer) {
    const std::string one = make_model(scratch_, "one.gguf", "--arch qwen3moe --quant q4_k_m --seed 1");
    const std::string two = make_model(scratch_, "two.gguf", "--arch qwen3moe --quant q4_k_m --seed 2");
    const Finished result =
        larder({"verify", "-m", one, "--against", two, "--ram", "200M", "-n", "2", "--out", scratch_ / "ab-test.json"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("logits differ from stock llama.cpp from position 0 on"));
    const auto json = nlohmann::json::parse(contents(scratch_ / "ab-test.json"));
    EXPECT_EQ(json.at("all_passed"), false);
    EXPECT_EQ(json.at("runs").at(0).at("equal"), false);
}

// The worker that runs stock llama.cpp on the model, once it exists. Its job is its standard input.
pid_t stock_of(const std::string &model) {
    for (int i = 0; i < 6000; i++) {
        for (const auto &entry : std::filesystem::directory_iterator("/proc")) {
            try {
                const std::string arguments = contents(entry.path() / "cmdline");
                const std::string job =
                    arguments.find("worker") != std::string::npos ? contents(entry.path() / "fd" / "0") : "";
                if (job.find(model) != std::string::npos && job.find("\"stock\":true") != std::string::npos) {
                    return std::stoi(entry.path().filename());
                }
            } catch (const std::exception &) { // the process has ended
                continue;
            }
        }
        usleep(1000);
    }
    return 0;
}

TEST_F(Verify, SaysWhatToDoWhenStockWasKilledForWantOfMemory) {
    const std::string model = make_model(scratch_, "m.gguf", "--arch qwen3moe --quant q4_k_m");
    Process process({LARDER_PROGRAM, "verify", "-m", model, "--ram", "200M", "-n", "4000", "--out", ""});
    const pid_t stock = stock_of(model);
    ASSERT_GT(stock, 0);
    kill(stock, SIGKILL);
    const Finished result = process.wait();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("stock llama.cpp was killed (signal 9), most likely because memory ran out; "
                                      "use --kernels plain"));
}

// Makes all scales of the output matrix NaN, so all logits are NaN.
TEST_F(Verify, NamesNanAndComparesItsBits) {
    const std::string model = make_model(scratch_, "m.gguf", "--arch qwen3moe --quant q4_k_m");
    const Extent head = open_layout(model).find("output.weight")->extent;
    std::fstream file(model, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(head.offset));
    file << std::string(head.bytes, '\xff');
    file.close();
    const Finished result = larder({"verify", "-m", model, "--arena", "3M", "-n", "2", "--out", scratch_ / "ab.json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("warning: stock llama.cpp's logits hold NaN in "));
    const auto json = nlohmann::json::parse(contents(scratch_ / "ab.json"));
    EXPECT_EQ(json.at("runs").at(0).at("equal"), true);
    EXPECT_EQ(json.at("runs").at(0).at("nan_positions"), json.at("positions"));
}

TEST_F(Verify, LeavesNoFileBehindWhenItIsKilled) {
    const std::string model = make_model(scratch_, "m.gguf", "--arch qwen3moe --quant q4_k_m");
    const Scratch temporary;
    setenv("TMPDIR", (temporary / "").c_str(), 1);
    Process process({LARDER_PROGRAM, "verify", "-m", model, "--kernels", "fast", "-n", "4000", "--out", ""});
    unsetenv("TMPDIR");
    const pid_t stock = stock_of(model);
    EXPECT_GT(stock, 0);
    process.signal(SIGKILL);
    EXPECT_EQ(process.wait().exit_code, 128 + SIGKILL);
    EXPECT_TRUE(std::filesystem::is_empty(temporary / ""));
}

TEST_F(Verify, ReportsARunThatIsRefused) {
    const std::string model = make_model(scratch_, "m.gguf", "--arch qwen3moe --quant q4_k_m");
    const Finished result = larder({"verify", "-m", model, "--ram", "10M", "-n", "2", "--out", ""});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, HasSubstr("too small"));
    EXPECT_EQ(result.out, ""); // before stock llama.cpp has run
}

} // namespace
} // namespace larder::test
